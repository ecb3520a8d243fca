"""What a round is: the paper's Algorithm 1 and the records it is made of.

Pure: no files, no sockets, no processes, no threads, and no import from the rest of stayput but its errors.
"""
