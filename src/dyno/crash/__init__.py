"""Cutting the power: what an engine did to its files is recorded, and replayed through a model of what a file system
may have lost of it.

    record.py    what was recorded             recorder.py  records a command natively; straced.py where that fails
    changes.py   the record as changes that are lost or kept one by one, and what makes each durable
    images.py    what files hold in a state    model.py     draws states after a cut
    build.py     writes them to a directory    witness.py   tells them in words
"""
