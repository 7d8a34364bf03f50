"""The program of the probes: tries from inside a container what must not work there.

Its modules are sent as text to the image's own python3, whose standard library is all they have.
Each attempt is a line: what was tried, a tab, the outcome (the error's name, `done`, or a fact).
The last line is `end`.
"""
