"""Synonyms of words of the documentation.

General programming words: one line a group, whose first word may also be any of the others.
"""

from __future__ import annotations

from kwiken.services.search.index.text import stem

WEIGHT = 0.5

_GROUPS = """
parse load deserialize decode read
serialize dump encode
string str text
regex regexp
directory dir folder
delete remove unlink erase
create make new
copy duplicate clone
list sequence
dictionary dict mapping
integer int
number numeric
boolean bool
float floating
function callable
method function
argument arg parameter
exception error
thread threading
process subprocess
execute run
launch spawn start
sleep delay
pause suspend
wait await
concurrently concurrent
simultaneously parallel
random pseudorandom
compress zip
decompress unzip
unzip unpack extract decompress
archive tarfile
download retrieve
fetch retrieve
url uri
email mail
date datetime
time clock
elapsed duration
timer timeit
current now
temporary temp tmp
path filename
rename move
exists exist
size length
count number
sum add
average mean
sort order
sorted order
reverse backwards
unique distinct
merge combine
join concatenate
split separate
walk traverse
recursive recursively
match search
replace substitute
find search
hash digest
checksum crc
encrypt cipher
command shell
environment environ
option argument
log logging
print display
format pretty
cache memoize
memory allocation
profile profiler
test unittest
queue fifo
stack lifo
priority heap
heap priority
binary bisect
immutable frozen
constant literal
enumeration enum
iterate loop
loop iterate
iterator iterable
generator yield
lazily lazy
lock mutex
mutex lock
signal interrupt
connect connection
server listen
socket network
html markup
json javascript
config configuration
configuration ini
version release
platform operating
quit exit
terminate kill
""".strip()


def _table() -> dict[str, tuple[str, ...]]:
    """Each group's first word -> the others, all as stems."""
    found: dict[str, list[str]] = {}
    for line in _GROUPS.splitlines():
        first, *others = (stem(word) for word in line.split())
        known = found.setdefault(first, [])
        known.extend(other for other in others if other not in known and other != first)
    return {word: tuple(others) for word, others in found.items()}


TABLE = _table()


def also(term: str) -> list[tuple[str, float]]:
    """Other terms that may stand for this one, with their weight."""
    return [(other, WEIGHT) for other in TABLE.get(term, ())]
