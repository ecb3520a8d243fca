"""A run on disk: its spec, history and checkpoints, written so that a kill at any point loses no finished round.

    <folder>/
      spec.json                          what was asked for, complete
      label_counts.json                  labels held by each client, where examples have labels
      environment.json                   versions, device and partition it was computed with
      history.jsonl                      one line a round, line 1 the initial model
      checkpoints/round-000120.safetensors   the server's state; the last few, and the best
      result.json                        written last: the outcome
      lock                               held while a process writes

Reading a run needs no training code; writing it is for `experiments`.
"""
