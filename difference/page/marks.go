package page

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"znkr.io/diff"
)

// Parts that change at every check are not news. The marks of a page name its volatile lines and places, as
// learned from one check to the next. There are two kinds:
//
//   - A counter is a line of which only numbers and dates change, such as a clock or a number of visitors. It is identified by its
//     skeleton, wherever it stands.
//   - A rotating place is the text between two lines, if it is short and different each time: a quotation of the day, an
//     advertisement, the server's name, links to other articles. A pure insertion usually means a growing list, and when a list
//     continues most of its lines stay. rotation.go has the details.
//
// Each check at which a line or place changed adds two points, and each other check subtracts one. Three
// changes in a row make a line a counter, and five make a place a rotating one, which needs stronger evidence.
// The mark is lost with the last point, after maxPoints checks without a change at most, so that former noise
// becomes news again. A line that stays in a rotating place for stableChecks checks is reported. An edit beside a
// rotating place, or in the words of a counter, does not remove the mark. Checks that are days apart
// (maxCheckGap) teach nothing.
const (
	changePoints      = 2
	lineThreshold     = 3 * changePoints
	placeThreshold    = 5 * changePoints
	figureThreshold   = figureChanges * changePoints
	maxPoints         = figureThreshold
	maxMarks          = 256
	maxHunks          = 1 << 10 // with more hunks at once nothing is learned: the text is another one
	maxAnchorDistance = 8       // lines that are searched for one with words
)

// A mark says how often a line or a place has changed lately.
type mark struct {
	key        uint64
	points     int
	needs      int // points from which it is volatile
	place      bool
	isVolatile bool
}

// marks are the marks of a page.
type marks struct {
	list   []mark
	stable map[uint64]int // for lines in rotating places: the number of checks for which they have stayed, at most maxStable lines
}

func (m *marks) find(key uint64) *mark {
	for i := range m.list {
		if m.list[i].key == key {
			return &m.list[i]
		}
	}
	return nil
}

// marked reports whether a key has a mark.
func (m *marks) marked(key uint64) bool {
	f := m.find(key)
	return f != nil && f.isVolatile
}

// update counts the keys that changed since the last check, each with the points that it needs. It reports whether a mark was lost.
func (m *marks) update(lines, places map[uint64]int) (lost bool) {
	for i := range m.list {
		f := &m.list[i]
		had := f.isVolatile
		if max(lines[f.key], places[f.key]) > 0 {
			f.points = min(f.points+changePoints, maxPoints)
		} else {
			f.points--
		}
		f.isVolatile = f.points > 0 && (f.isVolatile || f.points >= f.needs)
		lost = lost || had && !f.isVolatile
	}
	m.list = slices.DeleteFunc(m.list, func(f mark) bool { return f.points <= 0 })
	m.addNew(lines, false)
	m.addNew(places, true)
	return lost
}

// transfer gives a mark to the successor of a marked line or place.
func (m *marks) transfer(key uint64, place bool) {
	f := m.find(key)
	if f == nil && len(m.list) < maxMarks {
		m.list = append(m.list, mark{key: key, needs: lineThreshold, place: place})
		f = &m.list[len(m.list)-1]
	}
	if f != nil && !f.isVolatile {
		f.isVolatile, f.points = true, lineThreshold
		if place {
			f.points = placeThreshold
		}
	}
}

// addNew counts keys that changed for the first time, as far as there is room.
func (m *marks) addNew(keys map[uint64]int, place bool) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if len(m.list) == maxMarks {
			return
		}
		if m.find(key) == nil {
			m.list = append(m.list, mark{key: key, points: changePoints, needs: keys[key], place: place})
		}
	}
}

// learn counts the changes since the last check, and returns them, and those outside of rotating places.
// Within a change, lines with the same skeleton are possible
// counters, and the lines between them are possible rotating places.
func (m *marks) learn(last, now *Core) (all, edits []diff.Hunk[string]) {
	lines, places := map[uint64]int{}, map[uint64]int{}
	var parts []diff.Hunk[string] // changes that are not counters
	all = changes(last.Lines, now.Lines)
	if len(all) > maxHunks {
		all = nil
	}
	amounts := amountsIn(now.Lines, all)
	for _, h := range all {
		omit, add := last.Lines[h.PosX:h.EndX], now.Lines[h.PosY:h.EndY]
		was, is := skeletons(omit), skeletons(add)
		if max(len(omit), len(add)) > largePlaceLines && !slices.Equal(was, is) {
			continue // another text, whose lines may be similar by chance
		}
		countersIn(lines, omit, add, amounts)
		for _, part := range changes(was, is) {
			parts = append(parts, diff.Hunk[string]{PosX: h.PosX + part.PosX, EndX: h.PosX + part.EndX, PosY: h.PosY + part.PosY, EndY: h.PosY + part.EndY})
		}
	}
	g := m.anchorsOf(last.Lines)
	for i, h := range parts {
		m.learnRotation(places, g, now.Lines, h, amounts)
		for _, next := range parts[i+1:] {
			if next.PosX-h.EndX > smallPlaceLines || next.EndX-h.PosX > largePlaceLines {
				break
			}
			h.EndX, h.EndY = next.EndX, next.EndY
			m.learnRotation(places, g, now.Lines, h, amounts)
		}
	}
	m.update(lines, places)
	return all, m.carryOver(last, now, all)
}

// countersIn adds the lines of a change in which only numbers and dates differ.
func countersIn(lines map[uint64]int, omit, add, amounts []string) {
	was := skeletons(omit)
	x, y := 0, 0
	for _, h := range append(changes(was, skeletons(add)), diff.Hunk[string]{PosX: len(omit)}) {
		for ; x < h.PosX; x, y = x+1, y+1 {
			if omit[x] != add[y] {
				needs := lineThreshold
				if slices.Contains(amounts, add[y]) {
					needs = figureThreshold
				}
				lines[keyOf(was[x])] = needs
			}
		}
		x, y = h.EndX, h.EndY
	}
}

// skeletons returns the skeletons of lines; lines without a skeleton stay.
func skeletons(lines []string) []string {
	masked := slices.Clone(lines)
	for i, l := range masked {
		if s, ok := skeleton(l); ok {
			masked[i] = s
		}
	}
	return masked
}

// lineKey returns the key of a possible counter.
func lineKey(text string) uint64 {
	s, _ := skeleton(text)
	return keyOf(s)
}

// relevant returns the news of a check relative to the visible version: the new version, and its changes.
// Volatile parts stay in it as they were. It also returns the lines of rotating places that have stayed.
func (m *marks) relevant(visible, now *Core, r *returns) (next Core, p Patch, stable map[uint64]int) {
	was, is := m.maskCounters(visible.Lines, now.Lines)
	news := changes(was, is)
	if len(news) <= maxHunks {
		news, stable = m.relevantChanges(visible, now, news)
		news = r.settle(visible, now, news)
	}
	next, p = replace(visible, now, news)
	return next, p, stable
}

// maskCounters returns the lines of two checks with counters replaced by their skeletons, and with equal links
// by HTTP and HTTPS. If the number of lines with one skeleton changes they are a list and not counters.
func (m *marks) maskCounters(visible, now []string) (was, is []string) {
	was, is = withHTTPS(visible), withHTTPS(now)
	if !slices.ContainsFunc(m.list, func(f mark) bool { return f.isVolatile && !f.place }) {
		return was, is
	}
	old, young := skeletons(was), skeletons(is)
	more := map[string]int{}
	for _, s := range young {
		more[s]++
	}
	for _, s := range old {
		more[s]--
	}
	mask := func(lines, bones []string) {
		for i, s := range bones {
			if more[s] == 0 && s != lines[i] && m.marked(keyOf(s)) {
				lines[i] = s
			}
		}
	}
	mask(was, old)
	mask(is, young)
	return was, is
}

// withHTTPS returns lines with links by HTTPS.
func withHTTPS(lines []string) []string {
	result := slices.Clone(lines)
	for i, l := range result {
		result[i] = strings.ReplaceAll(l, "](http://", "](https://")
	}
	return result
}

// keyOf returns the key of a text.
func keyOf(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t)) // never fails
		_, _ = h.Write([]byte{'\n'})
	}
	return h.Sum64()
}

// markSize is the size of an encoded mark in bytes, and MaxMarks that of the longest record of marks.
const (
	markSize = 9
	MaxMarks = 128 * markSize
)

// Marks encodes the marks of volatile lines and places, for another node that continues with the page.
func (m *Tracker) Marks() []byte {
	var b []byte
	for _, f := range m.marks.list {
		if f.isVolatile && len(b) < MaxMarks {
			kind := byte(0)
			if f.place {
				kind = 1
			}
			b = append(binary.BigEndian.AppendUint64(b, f.key), kind)
		}
	}
	return b
}

// SetMarks sets marks that another tracker encoded. Invalid ones are ignored.
func (m *Tracker) SetMarks(b []byte) {
	m.marks = marks{}
	for ; len(b) >= markSize && len(m.marks.list) < maxMarks; b = b[markSize:] {
		f := mark{key: binary.BigEndian.Uint64(b), points: lineThreshold, isVolatile: true}
		if f.place = b[8] == 1; f.place {
			f.points = placeThreshold
		}
		if b[8] <= 1 && m.marks.find(f.key) == nil {
			m.marks.list = append(m.marks.list, f)
		}
	}
}
