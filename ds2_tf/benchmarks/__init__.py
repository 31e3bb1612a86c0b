"""What the programs tools/bench_*.py measure."""
