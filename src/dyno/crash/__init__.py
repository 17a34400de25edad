"""Crash tests of engines: Dyno kills them, or records their changes to files and replays these through a model of
what a file system may lose in a power cut.

    record.py    format and files of a record  recorder.py  records a command, by native code
    images.py    contents of files in a state  changes.py   a record as changes that a cut keeps or loses one by one
    store.py     opens and judges a store      model.py     draws states after a cut, and describes them in words
    processes.py starts and kills processes    rows.py      kills, cuts and verdict of each engine and tier
"""
