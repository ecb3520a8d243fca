"""The deployment: a coordinator and clients that keep their data, over HTTPS.

The coordinator is a pure state machine (`coordinator.py`); what serves it, stores for it and talks to it is thin. The
process that serves sockets imports no torch: that alone would be most of its memory.
"""
