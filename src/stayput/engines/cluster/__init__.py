"""Rounds on many machines, by Ray: connection, workers that stay warm, and the engine that hands clients out to them.

    connection.py    to a cluster, or to a local one that is started
    parcels.py       a round's clients, cut and ordered
    trainer.py       what a worker process does
    pool.py          the workers as this process sees them: handed parcels, replaced when they die
    engine.py        a round

Ray is imported when an engine is made, never before. Ray pickles what it sends from process to process; a cluster and
those who use it are one circle of trust.
"""
