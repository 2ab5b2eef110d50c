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
	changeWorth = 2
	lineMarked  = 3 * changeWorth
	placeMarked = 5 * changeWorth
	lastLooks   = 16 // the most points there are
	maxMarks    = 256
	maxChanges  = 1 << 10 // of what has changed in more places at once, nothing is learned: it is another text
	landmarks   = 8       // lines that are looked through for one with words
)

// A mark is how often a line or a place has changed lately.
type mark struct {
	key    uint64
	points int
	place  bool
	marked bool
}

// marks are those of a page.
type marks struct {
	of    []mark
	waits map[uint64]int // lines that stand where it turns, and for how many looks; another one after each
}

func (m *marks) find(key uint64) *mark {
	for i := range m.of {
		if m.of[i].key == key {
			return &m.of[i]
		}
	}
	return nil
}

// marked says whether a key has earned its mark, and has not lost it.
func (m *marks) marked(key uint64) bool {
	f := m.find(key)
	return f != nil && f.marked
}

// look takes the keys that changed from one look to the next. It says whether a mark was lost.
func (m *marks) look(lines, places map[uint64]bool) (lost bool) {
	for i := range m.of {
		f := &m.of[i]
		had := f.marked
		if lines[f.key] || places[f.key] {
			f.points = min(f.points+changeWorth, lastLooks)
		} else {
			f.points--
		}
		needs := lineMarked
		if f.place {
			needs = placeMarked
		}
		f.marked = f.points > 0 && (f.marked || f.points >= needs)
		lost = lost || had && !f.marked
	}
	m.of = slices.DeleteFunc(m.of, func(f mark) bool { return f.points <= 0 })
	m.begin(lines, false)
	m.begin(places, true)
	return lost
}

// grant gives a mark to what goes on where something had it.
func (m *marks) grant(key uint64, place bool) {
	f := m.find(key)
	if f == nil && len(m.of) < maxMarks {
		m.of = append(m.of, mark{key: key, place: place})
		f = &m.of[len(m.of)-1]
	}
	if f != nil && !f.marked {
		f.marked, f.points = true, lineMarked
		if place {
			f.points = placeMarked
		}
	}
}

// begin counts what has changed for the first time, as far as there is room.
func (m *marks) begin(keys map[uint64]bool, place bool) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if m.find(key) == nil && len(m.of) < maxMarks {
			m.of = append(m.of, mark{key: key, points: changeWorth, place: place})
		}
	}
}

// learn takes what has changed from one look to the next. Within a change, lines with one skeleton
// are one line that counts; what is left between those turns.
func (m *marks) learn(last, now *Core) {
	lines, places := map[uint64]bool{}, map[uint64]bool{}
	var parts []diff.Hunk[string] // of what has changed, those that do not count
	all := changes(last.Lines, now.Lines)
	if len(all) > maxChanges {
		all = nil
	}
	for _, h := range all {
		omit, add := last.Lines[h.PosX:h.EndX], now.Lines[h.PosY:h.EndY]
		was, is := bones(omit), bones(add)
		if max(len(omit), len(add)) > turning && !slices.Equal(was, is) {
			continue // another text, in which lines may well be alike by chance
		}
		for _, l := range counting(omit, add) {
			lines[l] = true
		}
		for _, part := range changes(was, is) {
			parts = append(parts, diff.Hunk[string]{PosX: h.PosX + part.PosX, EndX: h.PosX + part.EndX, PosY: h.PosY + part.PosY, EndY: h.PosY + part.EndY})
		}
	}
	g := m.ground(last.Lines)
	for i, h := range parts {
		m.turned(places, g, now.Lines, h)
		for _, next := range parts[i+1:] {
			if next.PosX-h.EndX > slight || next.EndX-h.PosX > turning {
				break
			}
			h.EndX, h.EndY = next.EndX, next.EndY
			m.turned(places, g, now.Lines, h)
		}
	}
	m.look(lines, places)
	m.carry(last, now, all)
}

// counting returns the keys of those lines of a change that differ in nothing but numbers and dates.
func counting(omit, add []string) (keys []uint64) {
	was := bones(omit)
	x, y := 0, 0
	for _, h := range append(changes(was, bones(add)), diff.Hunk[string]{PosX: len(omit)}) {
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
func bones(lines []string) []string {
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
func (m *marks) germane(told, now *Core) (next Core, p Patch, waits map[uint64]int) {
	was, is := m.masked(told.Lines, now.Lines)
	news := changes(was, is)
	if len(news) <= maxChanges {
		news, waits = m.germaneOf(told, now, news)
	}
	next, p = replace(told, now, news)
	return next, p, waits
}

// masked is lines of two looks with those that count as their skeletons, and all links to one place alike.
// Where there are more lines of one skeleton than before, or fewer, they do not count: they are a list.
func (m *marks) masked(told, now []string) (was, is []string) {
	was, is = secure(told), secure(now)
	if !slices.ContainsFunc(m.of, func(f mark) bool { return f.marked && !f.place }) {
		return was, is
	}
	old, young := bones(was), bones(is)
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
func secure(lines []string) []string {
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
func (m *Memory) Marks() []byte {
	var b []byte
	for _, f := range m.marks.of {
		if f.marked && len(b) < MaxMarks {
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
func (m *Memory) SetMarks(b []byte) {
	m.marks = marks{}
	for ; len(b) >= markSize && len(m.marks.of) < maxMarks; b = b[markSize:] {
		f := mark{key: binary.BigEndian.Uint64(b), points: lineMarked, marked: true}
		if f.place = b[8] == 1; f.place {
			f.points = placeMarked
		}
		if b[8] <= 1 && m.marks.find(f.key) == nil {
			m.marks.of = append(m.marks.of, f)
		}
	}
}
