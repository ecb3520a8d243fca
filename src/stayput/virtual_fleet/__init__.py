"""Rounds under a virtual clock: clients that come and go, are slow, drop out, and have thin lines.

A simulated run says how many rounds it takes; this says how long they take and what they send. Who is asked, who is
waited for and when a round ends is decided by the deployment's coordinator (`deploy/coordinator.py`), which knows no
clock of its own; here it is given a virtual one. Only clients whose reports count are trained, on any engine.

    settings.py       what a fleet is like
    availability.py   when a client is there
    devices.py        how long a task takes it, and where in it a device drops out
    rounds.py         a round of the coordinator under the clock
    buffered.py       FedBuff: updates as they come, on the same clock
    training.py       a run under the clock

Must not be imported by experiments, engines or the deployment.
"""
