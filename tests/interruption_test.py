import os
import signal
import threading

import pytest

from ds2_tf.interruption import StopRequest

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def handlers():
    """Known handlers before, and a check that the same are there after."""
    at_first = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield before
    after = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.signal(signal.SIGINT, at_first)
    assert after == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_until_the_work_looks(number):
    done = []
    with StopRequest() as stop:
        assert not stop.requested
        done.append("before")
        os.kill(os.getpid(), number)
        done.append("after")
        assert stop.requested
    assert done == ["before", "after"]


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_a_second_signal_stops_at_once(first, second):
    with StopRequest():
        os.kill(os.getpid(), first)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), second)


def test_without_a_signal_nothing_is_requested():
    with StopRequest() as stop:
        pass
    assert not stop.requested


def test_errors_pass_and_the_handlers_come_back():
    with pytest.raises(ZeroDivisionError), StopRequest():
        1 / 0  # noqa: B018


def test_afterwards_ctrl_c_stops_as_ever():
    with StopRequest():
        pass
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_in_another_thread_it_does_nothing(handlers):
    found = []

    def work():
        with StopRequest() as stop:
            found.append(({n: signal.getsignal(n) for n in SIGNALS}, stop.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(handlers, False)]
