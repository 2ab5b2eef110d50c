package page

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"znkr.io/diff"
)

// ErrBase says that a patch does not belong to the core to which it was applied. The caller needs the whole new
// core.
var ErrBase = errors.New("patch is for another version")

// A Patch turns one core into another, like the output of POSIX diff: lines are added, removed or replaced by
// their numbers.
type Patch struct {
	Old, New Hash   // hashes of the cores
	Hunks    []Hunk // in order, not adjacent
}

// A Hunk is a change of adjacent lines.
type Hunk struct {
	At   int      // lines of the old core before the hunk
	Omit int      // old lines that are removed
	Add  []string // new lines in their place
}

// manyLines is the number of lines of two cores from which the shortest difference may take seconds to find.
// For more lines an algorithm in O(n log n) finds some difference.
const manyLines = 1 << 13

// changes returns the differing places of two texts.
func changes(old, now []string) []diff.Hunk[string] {
	if len(old)+len(now) > manyLines {
		return diff.Hunks(old, now, diff.Context(0), diff.Fast())
	}
	return diff.Hunks(old, now, diff.Context(0))
}

// replace applies some of the changes between two cores to the old one, and returns the result with its patch.
func replace(old, now *Core, some []diff.Hunk[string]) (Core, Patch) {
	next, p := Core{Title: now.Title, complete: now.complete}, Patch{Old: old.Hash()}
	at := 0
	for _, h := range some {
		add := now.Lines[h.PosY:h.EndY]
		next.Lines = append(append(next.Lines, old.Lines[at:h.PosX]...), add...)
		at = h.EndX
		p.Hunks = append(p.Hunks, Hunk{At: h.PosX, Omit: h.EndX - h.PosX, Add: slices.Clone(add)})
	}
	next.Lines = append(next.Lines, old.Lines[at:]...)
	p.New = next.Hash()
	return next, p
}

// Apply returns the new core, with the old title. If the patch does not belong to old, or does not lead to its
// New hash, the error is ErrBase.
func (p *Patch) Apply(old *Core) (Core, error) {
	if old.Hash() != p.Old {
		return Core{}, ErrBase
	}
	next := Core{Title: old.Title}
	at := 0
	for _, h := range p.Hunks {
		if h.At < at || h.Omit < 0 || h.Omit > len(old.Lines)-h.At {
			return Core{}, fmt.Errorf("%w: it has a hunk at line %d of %d", ErrBase, h.At, len(old.Lines))
		}
		next.Lines = append(next.Lines, old.Lines[at:h.At]...)
		next.Lines = append(next.Lines, h.Add...)
		at = h.At + h.Omit
	}
	next.Lines = append(next.Lines, old.Lines[at:]...)
	if next.Hash() != p.New {
		return Core{}, fmt.Errorf("%w: it leads elsewhere", ErrBase)
	}
	return next, nil
}

// Text returns the patch in the default format of POSIX diff, which GNU patch applies (patch -n).
func (p *Patch) Text(old *Core) string {
	var b strings.Builder
	moved := 0 // growth of the text in the hunks so far, in lines
	for _, h := range p.Hunks {
		from, to := h.At+1, h.At+1+moved
		switch {
		case h.Omit == 0:
			b.WriteString(strconv.Itoa(h.At) + "a" + span(to, len(h.Add)))
		case len(h.Add) == 0:
			b.WriteString(span(from, h.Omit) + "d" + strconv.Itoa(to-1))
		default:
			b.WriteString(span(from, h.Omit) + "c" + span(to, len(h.Add)))
		}
		b.WriteByte('\n')
		for _, l := range old.Lines[h.At : h.At+h.Omit] {
			b.WriteString("< " + l + "\n")
		}
		if h.Omit > 0 && len(h.Add) > 0 {
			b.WriteString("---\n")
		}
		for _, l := range h.Add {
			b.WriteString("> " + l + "\n")
		}
		moved += len(h.Add) - h.Omit
	}
	return b.String()
}

// span formats a range of lines.
func span(first, count int) string {
	if count == 1 {
		return strconv.Itoa(first)
	}
	return strconv.Itoa(first) + "," + strconv.Itoa(first+count-1)
}
