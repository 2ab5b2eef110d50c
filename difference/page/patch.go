package page

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"znkr.io/diff"
)

// ErrBase says that a patch is not one of the core that it was to be applied to. Whoever
// sees it needs the new core whole.
var ErrBase = errors.New("patch is for another version")

// A Patch is what makes one core of another, as POSIX's diff says it: lines by their numbers
// are added, omitted or replaced.
type Patch struct {
	Old, New Hash   // of the cores
	Hunks    []Hunk // in their order, none beside another
}

// A Hunk is a change of lines that stand together.
type Hunk struct {
	At   int      // the lines of the old core before it
	Omit int      // how many of those after that go,
	Add  []string // and what comes in their place
}

// manyLines is how many lines two cores have together for which the shortest difference may take
// too long to find: of random letters, seconds. Theirs is one that is found in O(n log n).
const manyLines = 1 << 13

// changes are the places where two texts differ.
func changes(old, now []string) []diff.Hunk[string] {
	if len(old)+len(now) > manyLines {
		return diff.Hunks(old, now, diff.Context(0), diff.Fast())
	}
	return diff.Hunks(old, now, diff.Context(0))
}

// Diff returns how a core became what it is now. Without hunks, it is what it was.
func Diff(old, now *Core) Patch {
	_, p := replace(old, now, changes(old.Lines, now.Lines))
	return p
}

// replace returns a core with some of the changes that lead to another one, and how it became that.
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

// Apply returns the new core; its title is the old one's. If old is not what the patch is
// for, the error is ErrBase, also for a patch that does not lead to what it says.
func (p *Patch) Apply(old *Core) (Core, error) {
	if old.Hash() != p.Old {
		return Core{}, ErrBase
	}
	of := Core{Title: old.Title}
	at := 0
	for _, h := range p.Hunks {
		if h.At < at || h.Omit < 0 || h.Omit > len(old.Lines)-h.At {
			return Core{}, fmt.Errorf("%w: it has a hunk at line %d of %d", ErrBase, h.At, len(old.Lines))
		}
		of.Lines = append(of.Lines, old.Lines[at:h.At]...)
		of.Lines = append(of.Lines, h.Add...)
		at = h.At + h.Omit
	}
	of.Lines = append(of.Lines, old.Lines[at:]...)
	if of.Hash() != p.New {
		return Core{}, fmt.Errorf("%w: it leads elsewhere", ErrBase)
	}
	return of, nil
}

// Text is the patch in the default format of POSIX's diff, which GNU patch applies (patch -n).
func (p *Patch) Text(old *Core) string {
	var b strings.Builder
	moved := 0 // by how many lines those after the last hunk stand farther down than before
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

// span names some lines from the first on.
func span(first, count int) string {
	if count == 1 {
		return strconv.Itoa(first)
	}
	return strconv.Itoa(first) + "," + strconv.Itoa(first+count-1)
}
