package page

import (
	"maps"
	"slices"
	"strings"
	"time"

	"znkr.io/diff"
)

// A block that comes and goes again and again is not news: a banner that some replicas show, one of two texts
// that a page shows by chance. A tracker remembers which lines came or went lately, beside which neighbours. The
// first time that a line comes, and the first time that it goes, are told. From the third such change on, the
// line stays in the visible version as readers have it, until it has neither come nor gone for calmChecks
// checks or for calmTime. Then the state in which it stayed is told, if readers have the other one. An alert that
// returns after a longer calm is told as if it were new.
//
// Numbers and dates do not make another line come or go, and neither do prices and stocks: a price that moves
// back and forth is told each time, see figure.go.
const (
	// returnsTold is how many comings and goings of a line in a row are told.
	returnsTold = 2
	// calmChecks is how many checks after its last coming or going a line is no longer remembered. A block that
	// one in two checks shows stays so long once in 4096 times.
	calmChecks = 12
	// calmTime is the same for channels with few checks a day.
	calmTime = 6 * 24 * time.Hour
	// maxReturns bounds the remembered places of lines, of which each line has two.
	maxReturns = 1 << 10
)

// returns remember the lines that came or went lately.
type returns struct {
	check int // number of the last check
	list  map[uint64]comings
}

// comings are how often a line came or went in one place.
type comings struct {
	times int
	check int // number of the check that saw the last time
	at    time.Time
}

// clone returns an independent copy.
func (r *returns) clone() returns { return returns{check: r.check, list: maps.Clone(r.list)} }

// forget drops the lines that have been calm for long enough, and reports whether one of them was left out.
func (r *returns) forget(at time.Time) (lost bool) {
	r.check++
	maps.DeleteFunc(r.list, func(_ uint64, c comings) bool {
		calm := r.check-c.check >= calmChecks || at.Sub(c.at) > calmTime
		lost = lost || calm && c.times > returnsTold
		return calm
	})
	return lost
}

// learn counts the lines that came or went in the changes since the last check. edits are the changes outside of
// rotating places: a line that is shown there again does not begin to come and go.
func (r *returns) learn(last, now []string, all, edits []diff.Hunk[string], at time.Time) {
	r.forget(at)
	news := moved(last, now, edits)
	for key := range moved(last, now, all) {
		c, known := r.list[key]
		if !known && (!news[key] || len(r.list) >= maxReturns) {
			continue
		}
		if r.list == nil {
			r.list = map[uint64]comings{}
		}
		r.list[key] = comings{c.times + 1, r.check, at}
	}
}

// moved returns the keys of the lines that came or went in some changes. They are none if there are too many,
// because the text is another one.
func moved(last, now []string, hunks []diff.Hunk[string]) map[uint64]bool {
	went, came, size := map[uint64]bool{}, map[uint64]bool{}, 0
	for _, h := range worded(last, now, hunks) {
		if size += h.EndX - h.PosX + h.EndY - h.PosY; 2*size > maxReturns {
			return nil
		}
		if h.PosX < h.EndX && h.PosY < h.EndY {
			above, below := exchange(last, now, h)
			went[above], went[below] = true, true
			continue
		}
		for i := h.PosX; i < h.EndX; i++ {
			above, below := beside(last, i, i+1)
			went[above], went[below] = true, true
		}
		for i := h.PosY; i < h.EndY; i++ {
			above, below := beside(now, i, i+1)
			came[above], came[below] = true, true
		}
	}
	for key := range came {
		if went[key] {
			delete(went, key) // only its place is another one
		} else {
			went[key] = true
		}
	}
	return went
}

// areSlight reports whether changes are blocks of a text. Large ones, or half of the text, are another version of
// it, which is news even if it was there before.
func areSlight(was, is []string, all []diff.Hunk[string]) bool {
	size := 0
	for _, h := range all {
		omit, add := was[h.PosX:h.EndX], is[h.PosY:h.EndY]
		bytes := max(length(omit), length(add))
		if size += bytes; max(len(omit), len(add)) > largePlaceLines || bytes > largePlaceBytes {
			return false
		}
	}
	return 2*size <= max(length(was), length(is))
}

// worded returns the parts of changes in which not only numbers and dates differ.
func worded(last, now []string, all []diff.Hunk[string]) (hunks []diff.Hunk[string]) {
	if !areSlight(last, now, all) {
		return nil
	}
	for _, h := range all {
		for _, part := range changes(skeletons(last[h.PosX:h.EndX]), skeletons(now[h.PosY:h.EndY])) {
			hunks = append(hunks, diff.Hunk[string]{PosX: h.PosX + part.PosX, EndX: h.PosX + part.EndX, PosY: h.PosY + part.PosY, EndY: h.PosY + part.EndY})
		}
	}
	return hunks
}

// beside returns the keys of some lines with the one above them and with the one below them. A line in the middle
// of a block that comes keeps both, and the first and the last one keep one each if something else changes beside
// them.
func beside(lines []string, begin, end int) (above, below uint64) {
	neighbour := func(i int) string {
		if i < 0 || i >= len(lines) {
			return ""
		}
		s, _ := skeleton(lines[i])
		return s
	}
	text := strings.Join(lines[begin:end], "\n")
	return keyOf("above", neighbour(begin-1), text), keyOf("below", neighbour(end), text)
}

// exchange returns the keys of two texts that replace each other, the same in both directions.
func exchange(was, is []string, h diff.Hunk[string]) (above, below uint64) {
	above, below = beside(was, h.PosX, h.EndX)
	over, under := beside(is, h.PosY, h.EndY)
	return above ^ over, below ^ under
}

// settle returns the changes of a visible version without those of lines that come and go.
func (r *returns) settle(visible, now *Core, news []diff.Hunk[string]) []diff.Hunk[string] {
	if !r.any() || !areSlight(visible.Lines, now.Lines, news) {
		return news
	}
	return slices.DeleteFunc(slices.Clone(news), func(h diff.Hunk[string]) bool {
		omit, add := visible.Lines[h.PosX:h.EndX], now.Lines[h.PosY:h.EndY]
		switch {
		case len(omit) == 0:
			return r.returned(now.Lines, h.PosY, h.EndY)
		case len(add) == 0:
			return r.returned(visible.Lines, h.PosX, h.EndX)
		}
		above, below := exchange(visible.Lines, now.Lines, h)
		return r.often(above, below) && !(slices.ContainsFunc(omit, isFigure) && slices.ContainsFunc(add, isFigure))
	})
}

// returned reports whether some lines have come and gone before. Those without words, and figures, belong to
// those beside them.
func (r *returns) returned(lines []string, begin, end int) (all bool) {
	for i := begin; i < end; i++ {
		if _, ok := skeleton(lines[i]); !ok || isFigure(lines[i]) {
			continue
		}
		if all = r.often(beside(lines, i, i+1)); !all {
			return false
		}
	}
	return all
}

// often reports whether lines came or went too often to be told, beside one of two neighbours.
func (r *returns) often(above, below uint64) bool {
	return max(r.list[above].times, r.list[below].times) > returnsTold
}

// any reports whether a line has come and gone before.
func (r *returns) any() bool {
	for _, c := range r.list {
		if c.times > returnsTold {
			return true
		}
	}
	return false
}
