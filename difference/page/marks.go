package page

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"znkr.io/diff"
)

// What changes at every look is no news. A page's marks say which lines and places of it do,
// as learned from one look to the next. Two kinds are told apart:
//
//   - A line counts if what changes of it are numbers and dates: a clock, a number of visitors. It goes
//     by its skeleton, wherever it stands.
//   - A place turns if what stands between the same two lines, a few lines at most, is
//     another each time: a quotation of the day, an advertisement, the server's name, links
//     to other articles. Where something only came, and nothing went, a list grows.
//
// Each look at which one of them changed is worth two points, each at which it did not
// costs one. With three changes in a row a line has earned its mark, a place, which needs
// stronger proof, with five. The mark is lost with the last point, after lastLooks without a change at
// the most: so what was noise, and is not any more, is news again.
// Looks that are days apart (farApart) teach nothing.
const (
	changeWorth  = 2
	lineMarked   = 3 * changeWorth
	placeMarked  = 5 * changeWorth
	lastLooks    = 16 // the most points there are
	maxMarks     = 256
	maxChanges   = 1 << 10 // of what has changed in more places at once, nothing is learned: it is another text
	landmarks    = 8       // lines that are looked through for one with words
	slight       = 3       // lines at most on either side of what is said of a place,
	slightLength = 600     // of so many bytes at most,
	turning      = 12      // or so many, if as many go as come,
	turnLength   = 2400    // and of so many bytes
)

// A mark is how often a line or a place has changed lately.
type mark struct {
	key    uint64
	points int
	place  bool
	marked bool
}

// marks are those of a page.
type marks struct{ of []mark }

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

// look takes the keys that changed from one look to the next.
func (m *marks) look(lines, places map[uint64]bool) {
	for i := range m.of {
		f := &m.of[i]
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
	}
	m.of = slices.DeleteFunc(m.of, func(f mark) bool { return f.points <= 0 })
	m.begin(lines, false)
	m.begin(places, true)
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
	for i, h := range parts {
		m.turned(places, last, now, h)
		for _, next := range parts[i+1:] {
			if next.PosX-h.EndX > slight || next.EndX-h.PosX > turning {
				break
			}
			h.EndX, h.EndY = next.EndX, next.EndY
			m.turned(places, last, now, h)
		}
	}
	m.look(lines, places)
}

// turned takes a change, or some side by side, as that of a place, if it may be one, and of those with marks that
// it is a part of. Where nothing went, no place begins: a list grows.
func (m *marks) turned(places map[uint64]bool, last, now *Core, h diff.Hunk[string]) {
	if !turns(last.Lines[h.PosX:h.EndX], now.Lines[h.PosY:h.EndY]) {
		return
	}
	grows := grows(h)
	key := placeKey(last.Lines, h.PosX, h.EndX, grows)
	if h.PosX < h.EndX || m.find(key) != nil {
		places[key] = true
	}
	for _, key := range m.around(last.Lines, h.PosX, h.EndX, grows) {
		places[key] = true
	}
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

// around returns the places with marks that these lines are, or are a part of: where two texts turn side by
// side, and the one moves to where the other was, some of what has changed seems not to have.
func (m *marks) around(lines []string, begin, end, grows int) (keys []uint64) {
	if len(m.of) == 0 {
		return nil
	}
	for before := range slight + 1 {
		for behind := range slight + 1 {
			if begin-before < 0 || end+behind > len(lines) {
				continue
			}
			if key := placeKey(lines, begin-before, end+behind, grows); m.marked(key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// turns says whether one of these texts may stand in another's place: a few lines, or some for as many
// others.
func turns(omit, add []string) bool {
	lines, size := max(len(omit), len(add)), max(length(omit), length(add))
	return lines <= slight && size <= slightLength || len(omit) == len(add) && lines <= turning && size <= turnLength
}

func length(lines []string) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// lineKey is that of a line that may count.
func lineKey(text string) uint64 {
	s, _ := skeleton(text)
	return keyOf(s)
}

// placeKey is that of what stands between two lines, when so many more lines come than go: where a line turns,
// another one that comes beside it is news.
func placeKey(lines []string, begin, end, grows int) uint64 {
	return keyOf("between", landmark(lines, begin-1, -1), landmark(lines, end, 1), strconv.Itoa(grows))
}

// grows is how many more lines come with a change than go.
func grows(h diff.Hunk[string]) int { return h.EndY - h.PosY - (h.EndX - h.PosX) }

// landmark says where a line is by the next one with words, upwards or downwards from it: one number
// in a table is as good as another.
func landmark(lines []string, at, step int) string {
	for away := range landmarks {
		i := at + away*step
		if i < 0 || i >= len(lines) {
			return strconv.Itoa(away)
		}
		if s, ok := skeleton(lines[i]); ok {
			return s + "\n" + strconv.Itoa(away)
		}
	}
	return lines[at]
}

// germane returns what a look says beyond the version that readers have: that version, changed
// where it is news, and how. What only changes by itself stays in it as it was.
func (m *marks) germane(told, now *Core) (Core, Patch) {
	was, is := m.masked(told.Lines, now.Lines)
	news := changes(was, is)
	if len(news) > maxChanges {
		return replace(told, now, news)
	}
	return replace(told, now, m.germaneOf(told, now, news))
}

// germaneOf returns the changes that are not what turns, alone or side by side.
func (m *marks) germaneOf(told, now *Core, all []diff.Hunk[string]) (news []diff.Hunk[string]) {
	for i := 0; i < len(all); {
		span, turned := all[i], 0
		for j := i; j < len(all); j++ {
			if j > i && (all[j].PosX-span.EndX > slight || all[j].EndX-span.PosX > turning) {
				break
			}
			span.EndX, span.EndY = all[j].EndX, all[j].EndY
			if turns(told.Lines[span.PosX:span.EndX], now.Lines[span.PosY:span.EndY]) && len(m.around(told.Lines, span.PosX, span.EndX, grows(span))) > 0 {
				turned = j - i + 1
			}
		}
		if turned == 0 {
			news = append(news, all[i])
		}
		i += max(turned, 1)
	}
	return news
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
