"""The live page: runs and sweeps as they go, in a browser. It reads runs' folders and never trains or writes.

    index.py     what is in the folder, kept up to date by sizes and times of files
    growing.py   one history, read on from where it was read to
    locks.py     whether a process is writing a run
    series.py    curves as few points, for the page
    app.py       the pages and the stream of events, on Starlette
    serve.py     the server, on this machine's own address alone
    assets/      the page itself: HTML, CSS and JavaScript, as they are served

Importing this package costs nothing; what is heavy (Starlette, uvicorn) is imported by `app` and `serve`. torch is not
imported at all.
"""
