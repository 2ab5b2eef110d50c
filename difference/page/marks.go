package page

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"znkr.io/diff"
)

// What changes at every look is no news. A page's marks say which lines and places of it do,
// as learned from one look to the next. Two kinds are told apart:
//
//   - A line counts if what changes of it are numbers and dates: a clock, a number of visitors. It goes
//     by its skeleton, wherever it stands.
//   - A place turns if what stands between the same two lines, some lines at most, is
//     another each time: a quotation of the day, advertisements, the server's name, links
//     to other articles. Where something only came, and nothing went, a list grows; and of one that
//     goes on, most lines stay. turn.go says more.
//
// Each look at which one of them changed is worth two points, each at which it did not
// costs one. With three changes in a row a line has earned its mark, a place, which needs
// stronger proof, with five. The mark is lost with the last point, after lastLooks without a change at
// the most: so what was noise, and is not any more, is news again. A line that stands in a place that turns is
// told by itself when it changes or has come to stay, and an edit beside a place or within the words of a line
// takes no mark away.
// Looks that are days apart (farApart) teach nothing.
const (
	changePoints      = 2
	lineThreshold     = 3 * changePoints
	placeThreshold    = 5 * changePoints
	maxPoints         = 16 // the most points there are
	maxMarks          = 256
	maxHunks          = 1 << 10 // of what has changed in more places at once, nothing is learned: it is another text
	maxAnchorDistance = 8       // lines that are looked through for one with words
)

// A mark is how often a line or a place has changed lately.
type mark struct {
	key        uint64
	points     int
	place      bool
	isVolatile bool
}

// marks are those of a page.
type marks struct {
	list   []mark
	stable map[uint64]int // lines that stand where it turns, and for how many looks; another one after each
}

func (m *marks) find(key uint64) *mark {
	for i := range m.list {
		if m.list[i].key == key {
			return &m.list[i]
		}
	}
	return nil
}

// marked says whether a key has earned its mark, and has not lost it.
func (m *marks) marked(key uint64) bool {
	f := m.find(key)
	return f != nil && f.isVolatile
}

// look takes the keys that changed from one look to the next. It says whether a mark was lost.
func (m *marks) update(lines, places map[uint64]bool) (lost bool) {
	for i := range m.list {
		f := &m.list[i]
		had := f.isVolatile
		if lines[f.key] || places[f.key] {
			f.points = min(f.points+changePoints, maxPoints)
		} else {
			f.points--
		}
		needs := lineThreshold
		if f.place {
			needs = placeThreshold
		}
		f.isVolatile = f.points > 0 && (f.isVolatile || f.points >= needs)
		lost = lost || had && !f.isVolatile
	}
	m.list = slices.DeleteFunc(m.list, func(f mark) bool { return f.points <= 0 })
	m.addNew(lines, false)
	m.addNew(places, true)
	return lost
}

// grant gives a mark to what goes on where something had it.
func (m *marks) transfer(key uint64, place bool) {
	f := m.find(key)
	if f == nil && len(m.list) < maxMarks {
		m.list = append(m.list, mark{key: key, place: place})
		f = &m.list[len(m.list)-1]
	}
	if f != nil && !f.isVolatile {
		f.isVolatile, f.points = true, lineThreshold
		if place {
			f.points = placeThreshold
		}
	}
}

// begin counts what has changed for the first time, as far as there is room.
func (m *marks) addNew(keys map[uint64]bool, place bool) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if m.find(key) == nil && len(m.list) < maxMarks {
			m.list = append(m.list, mark{key: key, points: changePoints, place: place})
		}
	}
}

// learn takes what has changed from one look to the next. Within a change, lines with one skeleton
// are one line that counts; what is left between those turns.
func (m *marks) learn(last, now *Core) {
	lines, places := map[uint64]bool{}, map[uint64]bool{}
	var parts []diff.Hunk[string] // of what has changed, those that do not count
	all := changes(last.Lines, now.Lines)
	if len(all) > maxHunks {
		all = nil
	}
	for _, h := range all {
		omit, add := last.Lines[h.PosX:h.EndX], now.Lines[h.PosY:h.EndY]
		was, is := skeletons(omit), skeletons(add)
		if max(len(omit), len(add)) > manyLinesRotating && !slices.Equal(was, is) {
			continue // another text, in which lines may well be alike by chance
		}
		for _, l := range counterKeys(omit, add) {
			lines[l] = true
		}
		for _, part := range changes(was, is) {
			parts = append(parts, diff.Hunk[string]{PosX: h.PosX + part.PosX, EndX: h.PosX + part.EndX, PosY: h.PosY + part.PosY, EndY: h.PosY + part.EndY})
		}
	}
	g := m.anchorsOf(last.Lines)
	for i, h := range parts {
		m.learnRotation(places, g, now.Lines, h)
		for _, next := range parts[i+1:] {
			if next.PosX-h.EndX > fewLines || next.EndX-h.PosX > manyLinesRotating {
				break
			}
			h.EndX, h.EndY = next.EndX, next.EndY
			m.learnRotation(places, g, now.Lines, h)
		}
	}
	m.update(lines, places)
	m.carryOver(last, now, all)
}

// counting returns the keys of those lines of a change that differ in nothing but numbers and dates.
func counterKeys(omit, add []string) (keys []uint64) {
	was := skeletons(omit)
	x, y := 0, 0
	for _, h := range append(changes(was, skeletons(add)), diff.Hunk[string]{PosX: len(omit)}) {
		for ; x < h.PosX; x, y = x+1, y+1 {
			if omit[x] != add[y] {
				keys = append(keys, keyOf(was[x]))
			}
		}
		x, y = h.EndX, h.EndY
	}
	return keys
}

// bones is lines as their skeletons, if they have any.
func skeletons(lines []string) []string {
	of := slices.Clone(lines)
	for i, l := range of {
		if s, ok := skeleton(l); ok {
			of[i] = s
		}
	}
	return of
}

// lineKey is that of a line that may count.
func lineKey(text string) uint64 {
	s, _ := skeleton(text)
	return keyOf(s)
}

// germane returns what a look says beyond the version that readers have: that version, changed
// where it is news, and how. What only changes by itself stays in it as it was; what of that waits is
// returned, too.
func (m *marks) relevant(told, now *Core) (next Core, p Patch, waits map[uint64]int) {
	was, is := m.maskCounters(told.Lines, now.Lines)
	news := changes(was, is)
	if len(news) <= maxHunks {
		news, waits = m.relevantChanges(told, now, news)
	}
	next, p = replace(told, now, news)
	return next, p, waits
}

// masked is lines of two looks with those that count as their skeletons, and all links to one place alike.
// Where there are more lines of one skeleton than before, or fewer, they do not count: they are a list.
func (m *marks) maskCounters(told, now []string) (was, is []string) {
	was, is = withHTTPS(told), withHTTPS(now)
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

// secure is lines with links by HTTPS.
func withHTTPS(lines []string) []string {
	of := slices.Clone(lines)
	for i, l := range of {
		of[i] = strings.ReplaceAll(l, "](http://", "](https://")
	}
	return of
}

// keyOf is that of a text.
func keyOf(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t)) // never fails
		_, _ = h.Write([]byte{'\n'})
	}
	return h.Sum64()
}

// markSize is that of a mark as a record has it, and MaxMarks that of the longest record, in bytes.
const (
	markSize = 9
	MaxMarks = 128 * markSize
)

// Marks are those lines and places that have earned their marks, for who goes on with the page.
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

// SetMarks goes on with marks that another memory had. What makes no sense is left out.
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
