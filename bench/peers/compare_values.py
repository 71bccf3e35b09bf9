# Relative differences of the velocities that two engines have saved: compare_values.py FILE FILE
import array
import math
import sys

SOUND = 32 * 2 * 64  # values of the sound, after those of the video


def load(file):
    out = array.array("f")
    with open(file, "rb") as stream:
        out.frombytes(stream.read())
    return out


a, b = load(sys.argv[1]), load(sys.argv[2])
assert len(a) == len(b)
for name, part in (("video", slice(0, len(a) - SOUND)), ("sound", slice(len(a) - SOUND, None))):
    difference = math.sqrt(sum((x - y) ** 2 for x, y in zip(a[part], b[part])))
    print(f"{name}: relative L2 {difference / math.sqrt(sum(x * x for x in a[part])):.2e}")
