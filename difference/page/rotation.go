package page

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"znkr.io/diff"
)

const (
	fewLines          = 3    // lines at most on either side of what is said of a place,
	fewLinesBytes     = 600  // of so many bytes at most,
	manyLinesRotating = 32   // or so many, if as many go as come, or all of them do each time
	manyLinesBytes    = 6000 // and of so many bytes
)

// anyGrowth stands for how many more lines come than go where that is another number each time.
const anyGrowth = 1 << 30

// A place is what stands between two lines, of which a change is a part.
type place struct {
	key            uint64
	before, behind int // lines of it around the change
}

// turned takes a change, or some side by side, as that of a place, if it may be one, and of those with marks that
// it is a part of. Where nothing went, no place begins: a list grows.
func (m *marks) learnRotation(places map[uint64]bool, last *anchors, now []string, h diff.Hunk[string]) {
	omit, add := last.lines[h.PosX:h.EndX], now[h.PosY:h.EndY]
	if key := last.key(h.PosX, h.EndX, growth(h)); rotates(omit, add) && (h.PosX < h.EndX || m.find(key) != nil) {
		places[key] = true
	}
	if growth(h) != 0 && rotatesUnevenly(omit, add) && countCommon(add, omit)*2 < len(add) { // of a list that goes on, most lines stay
		places[last.key(h.PosX, h.EndX, anyGrowth)] = true
	}
	for _, p := range last.rotatingAround(now, h) {
		places[p.key] = true
	}
}

// around returns the places with marks that a change is of, or of a part of which: where two texts turn side by
// side, and the one moves to where the other was, some of what has changed seems not to have.
func (g *anchors) rotatingAround(now []string, h diff.Hunk[string]) (of []place) {
	if len(g.marked) == 0 {
		return nil
	}
	omit, add := g.lines[h.PosX:h.EndX], now[h.PosY:h.EndY]
	var kinds []int
	if rotates(omit, add) {
		kinds = append(kinds, growth(h))
	}
	if rotatesUnevenly(omit, add) {
		kinds = append(kinds, anyGrowth)
	}
	for _, grows := range kinds {
		for before := range min(fewLines, h.PosX) + 1 {
			for behind := range min(fewLines, len(g.lines)-h.EndX) + 1 {
				if key := g.key(h.PosX-before, h.EndX+behind, grows); g.marked[key] {
					of = append(of, place{key, before, behind})
				}
			}
		}
	}
	return of
}

// turns says whether one of these texts may stand in another's place: a few lines, or some for as many
// others.
func rotates(omit, add []string) bool {
	lines, size := max(len(omit), len(add)), max(length(omit), length(add))
	return lines <= fewLines && size <= fewLinesBytes || len(omit) == len(add) && lines <= manyLinesRotating && size <= manyLinesBytes
}

// varies says whether one of these texts may stand in another's place though there are more lines of it, or
// fewer.
func rotatesUnevenly(omit, add []string) bool {
	return len(omit) > 0 && len(add) > 0 && max(len(omit), len(add)) <= manyLinesRotating && max(length(omit), length(add)) <= manyLinesBytes
}

func length(lines []string) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// grows is how many more lines come with a change than go.
func growth(h diff.Hunk[string]) int { return h.EndY - h.PosY - (h.EndX - h.PosX) }

// A ground is lines among which places are looked for, many times over.
type anchors struct {
	lines     []string
	skeletons []uint64        // of those that were looked at: the keys of their skeletons, or wordless
	marked    map[uint64]bool // the places that have earned their marks
}

// wordless stands for the skeleton of a line that has none.
const wordless = 1

func (m *marks) anchorsOf(lines []string) *anchors {
	g := &anchors{lines: lines, skeletons: make([]uint64, len(lines)), marked: map[uint64]bool{}}
	for _, f := range m.list {
		if f.isVolatile && f.place {
			g.marked[f.key] = true
		}
	}
	return g
}

// key is that of what stands between two lines, when so many more lines come than go: where a line turns,
// another one that comes beside it is news.
func (g *anchors) key(begin, end, grows int) uint64 {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], g.anchor(begin-1, -1))
	binary.BigEndian.PutUint64(b[8:], g.anchor(end, 1))
	binary.BigEndian.PutUint64(b[16:], uint64(grows))
	h := fnv.New64a()
	_, _ = h.Write(b[:]) // never fails
	return h.Sum64()
}

// landmark says where a line is by the next one with words, upwards or downwards from it: one number
// in a table is as good as another.
func (g *anchors) anchor(at, step int) uint64 {
	for away := range maxAnchorDistance {
		i := at + away*step
		if i < 0 || i >= len(g.lines) {
			return uint64(away)
		}
		if g.skeletons[i] == 0 {
			g.skeletons[i] = wordless
			if s, ok := skeleton(g.lines[i]); ok {
				g.skeletons[i] = keyOf(s)
			}
		}
		if g.skeletons[i] != wordless {
			return g.skeletons[i] + uint64(away)
		}
	}
	return keyOf(g.lines[at])
}

// patience is for how many looks in a row a line has to stand in a place that turns to be no part of what does:
// when it changes, or has come to stay, it is told after all. More than by chance, where few turn.
const stableChecks = 6

// maxWaits bounds the lines of which it is known for how long they have stood so.
const maxStable = 256

// germaneOf returns the changes that are not what turns, alone or side by side, and for how many looks the lines
// of such places have stood.
func (m *marks) relevantChanges(told, now *Core, all []diff.Hunk[string]) (news []diff.Hunk[string], waits map[uint64]int) {
	waits = map[uint64]int{}
	g := m.anchorsOf(told.Lines)
	for i := 0; i < len(all); {
		span, turned, in := all[i], 0, placeSpan{}
		for j := i; j < len(all); j++ {
			if j > i && (all[j].PosX-span.EndX > fewLines || all[j].EndX-span.PosX > manyLinesRotating) {
				break
			}
			span.EndX, span.EndY = all[j].EndX, all[j].EndY
			if of := g.rotatingAround(now.Lines, span); len(of) > 0 {
				widest := of[len(of)-1]
				turned, in = j-i+1, placeSpan{
					key:     widest.key,
					begin:   max(span.PosY-widest.before, 0), // other changes may have taken what was there
					end:     min(span.EndY+widest.behind, len(now.Lines)),
					visible: told.Lines[span.PosX-widest.before : span.EndX+widest.behind],
				}
			}
		}
		if turned == 0 {
			news = append(news, all[i])
		} else {
			news = append(news, m.stableLines(told, now, all[i:i+turned], in, waits)...)
		}
		i += max(turned, 1)
	}
	return news, waits
}

// A stage is where a place is now.
type placeSpan struct {
	key        uint64
	begin, end int
	visible    []string // what readers have of it
}

// standing returns what of the changes of a place is of lines that stand in it, and notes for how long its lines
// have.
func (m *marks) stableLines(told, now *Core, all []diff.Hunk[string], in placeSpan, waits map[uint64]int) (of []diff.Hunk[string]) {
	for y := in.begin; y < in.end; y++ {
		long := 0
		for _, key := range in.keys(now.Lines[y], y) {
			long = max(long, m.stable[key]+1)
			if len(waits) < maxStable {
				waits[key] = m.stable[key] + 1
			}
		}
		for len(all) > 0 && all[0].EndY <= y {
			all = all[1:]
		}
		if len(all) == 0 || y < all[0].PosY {
			continue // nothing has changed here
		}
		h, last := all[0], len(of)-1
		x, even := h.PosX+y-h.PosY, growth(h) == 0
		if even {
			for _, key := range in.keys(told.Lines[x], y) {
				long = max(long, m.stable[key])
			}
		}
		switch {
		case long <= stableChecks, slices.Contains(in.visible, now.Lines[y]):
		case !even:
			of, y = append(of, h), h.EndY-1
		case last >= 0 && of[last].EndY == y:
			of[last].EndX, of[last].EndY = x+1, y+1
		default:
			of = append(of, diff.Hunk[string]{PosX: x, EndX: x + 1, PosY: y, EndY: y + 1})
		}
	}
	return of
}

// keys are those of a line where it stands, from either end of the place: it may grow at the other.
func (s placeSpan) keys(text string, at int) [2]uint64 {
	place := strconv.FormatUint(s.key, 16)
	return [2]uint64{keyOf(place, strconv.Itoa(at-s.begin), text), keyOf(place, strconv.Itoa(at-s.end), text)}
}

// carry lets marks go on when an edit changes the words of a line that counts, or beside a place that turns.
func (m *marks) carryOver(last, now *Core, all []diff.Hunk[string]) {
	if !slices.ContainsFunc(m.list, func(f mark) bool { return f.isVolatile }) {
		return
	}
	edits, _ := m.relevantChanges(last, now, all)
	g, to := m.anchorsOf(last.Lines), m.anchorsOf(now.Lines)
	m.moveMarks(g, to, edits)
	for _, h := range edits {
		if growth(h) == 0 && h.EndX-h.PosX <= manyLinesRotating {
			was, is := skeletons(last.Lines[h.PosX:h.EndX]), skeletons(now.Lines[h.PosY:h.EndY])
			for i := range is {
				if is[i] != now.Lines[h.PosY+i] && is[i] != was[i] && similar(was[i], is[i]) && m.marked(keyOf(was[i])) {
					m.transfer(keyOf(is[i]), false)
				}
			}
		} else if h.PosX < h.EndX && h.PosY < h.EndY {
			continue // which line is which is not known
		}
		for begin := max(h.PosX-fewLines, 0); begin <= min(h.EndX, len(last.Lines)-1); begin++ {
			for end := max(begin+1, h.PosX); end <= min(begin+fewLines, len(last.Lines)); end++ {
				from, ok := mapLine(h, begin, begin >= h.EndX)
				until, too := mapLine(h, end, end > h.PosX)
				if !ok || !too {
					continue
				}
				for _, grows := range []int{0, anyGrowth} {
					if g.marked[g.key(begin, end, grows)] {
						m.transfer(to.key(from, until, grows), true)
					}
				}
			}
		}
	}
}

// move lets marks go on when what turns goes from between two lines, and as much comes between two others near
// them: the lines of a list move down, and the advertisement below the third of them stays.
func (m *marks) moveMarks(last, now *anchors, edits []diff.Hunk[string]) {
	for _, h := range edits {
		size := h.EndX - h.PosX
		if h.PosY < h.EndY || size > fewLines {
			continue
		}
		to, away := h, len(last.lines)+1
		for _, o := range edits {
			if far := max(o.PosX-h.PosX, h.PosX-o.PosX); o.PosX == o.EndX && o.EndY-o.PosY == size && far < away {
				to, away = o, far
			}
		}
		for begin := range to.EndY - to.PosY {
			for end := begin + 1; end <= size; end++ {
				if last.marked[last.key(h.PosX+begin, h.PosX+end, 0)] {
					m.transfer(now.key(to.PosY+begin, to.PosY+end, 0), true)
				}
			}
		}
	}
}

// follow returns where a line is after a change, by its distance from the lines behind the change or from those
// before it. Within one, that is known if as many lines come as go.
func mapLine(h diff.Hunk[string], at int, behind bool) (to int, ok bool) {
	if behind {
		return at + h.EndY - h.EndX, at >= h.EndX || growth(h) == 0
	}
	return at + h.PosY - h.PosX, at <= h.PosX || growth(h) == 0
}

// akin says whether most words of one line are in the other.
func similar(was, is string) bool {
	a, b := strings.Fields(was), strings.Fields(is)
	return countCommon(a, b)*2 > len(a) && countCommon(b, a)*2 > len(b)
}
