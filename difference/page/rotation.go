package page

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"znkr.io/diff"
)

// A place may rotate if it is small, or if it is large and has the same number of lines each time, or has no line
// in common with its former text.
const (
	smallPlaceLines = 3
	smallPlaceBytes = 600
	largePlaceLines = 32
	largePlaceBytes = 6000
)

// anyGrowth stands for a number of additional lines that differs each time.
const anyGrowth = 1 << 30

// A place is the text between two lines, of which a change is a part.
type place struct {
	key            uint64
	before, behind int // lines of the place before and after the change
}

// learnRotation adds the places of a change, or of adjacent changes, that may rotate, and the marked places
// that contain the change. A pure insertion begins no place: it usually means a growing list.
func (m *marks) learnRotation(places map[uint64]int, last *anchors, now []string, h diff.Hunk[string], amounts []string) {
	omit, add := last.lines[h.PosX:h.EndX], now[h.PosY:h.EndY]
	needs := placeThreshold
	if areAmounts(omit, add, amounts) {
		needs = figureThreshold
	}
	if key := last.key(h.PosX, h.EndX, growth(h)); rotates(omit, add) && (h.PosX < h.EndX || m.find(key) != nil) {
		places[key] = needs
	}
	if growth(h) != 0 && rotatesUnevenly(omit, add) && countCommon(add, omit)*2 < len(add) { // when a list continues most lines stay
		places[last.key(h.PosX, h.EndX, anyGrowth)] = needs
	}
	for _, p := range last.rotatingAround(now, h) {
		places[p.key] = needs
	}
}

// rotatingAround returns the marked places of a change, or around it. Where two texts rotate side by side and
// one moves to the place of the other, a part of the change is not visible.
func (g *anchors) rotatingAround(now []string, h diff.Hunk[string]) (places []place) {
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
		for before := range min(smallPlaceLines, h.PosX) + 1 {
			for behind := range min(smallPlaceLines, len(g.lines)-h.EndX) + 1 {
				if key := g.key(h.PosX-before, h.EndX+behind, grows); g.marked[key] {
					places = append(places, place{key, before, behind})
				}
			}
		}
	}
	return places
}

// rotates reports whether two texts may alternate in a place: a few lines, or more with the same number of
// lines.
func rotates(omit, add []string) bool {
	lines, size := max(len(omit), len(add)), max(length(omit), length(add))
	return lines <= smallPlaceLines && size <= smallPlaceBytes || len(omit) == len(add) && lines <= largePlaceLines && size <= largePlaceBytes
}

// rotatesUnevenly reports whether two texts may alternate in a place with different numbers of lines.
func rotatesUnevenly(omit, add []string) bool {
	return len(omit) > 0 && len(add) > 0 && max(len(omit), len(add)) <= largePlaceLines && max(length(omit), length(add)) <= largePlaceBytes
}

func length(lines []string) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// growth returns how many more lines a change adds than it removes.
func growth(h diff.Hunk[string]) int { return h.EndY - h.PosY - (h.EndX - h.PosX) }

// anchors is a text in which places are looked up many times.
type anchors struct {
	lines     []string
	skeletons []uint64        // cached keys of skeletons; wordless: the line has none; 0: unknown
	marked    map[uint64]bool // marked places
}

// wordless stands for a line without a skeleton.
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

// key returns the key of the place between two lines with a growth. The growth is part of the key: where a line
// rotates, an additional line is news.
func (g *anchors) key(begin, end, grows int) uint64 {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], g.anchor(begin-1, -1))
	binary.BigEndian.PutUint64(b[8:], g.anchor(end, 1))
	binary.BigEndian.PutUint64(b[16:], uint64(grows))
	h := fnv.New64a()
	_, _ = h.Write(b[:]) // never fails
	return h.Sum64()
}

// anchor identifies a line by the next one with words, upwards or downwards from it, because numbers in a table
// do not identify a line.
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

// stableChecks is for how many checks in a row a line of a rotating place must stay to be content, which is
// reported when it changes or stays. It is more than by chance if few texts rotate.
const stableChecks = 6

// maxStable bounds the lines whose stay is counted.
const maxStable = 256

// relevantChanges returns the changes outside of rotating places, and for how many checks the lines of rotating
// places have stayed.
func (m *marks) relevantChanges(visible, now *Core, all []diff.Hunk[string]) (news []diff.Hunk[string], stable map[uint64]int) {
	stable = map[uint64]int{}
	g := m.anchorsOf(visible.Lines)
	for i := 0; i < len(all); {
		span, turned, in := all[i], 0, placeSpan{}
		for j := i; j < len(all); j++ {
			if j > i && (all[j].PosX-span.EndX > smallPlaceLines || all[j].EndX-span.PosX > largePlaceLines) {
				break
			}
			span.EndX, span.EndY = all[j].EndX, all[j].EndY
			if places := g.rotatingAround(now.Lines, span); len(places) > 0 {
				widest := places[len(places)-1]
				turned, in = j-i+1, placeSpan{
					key:     widest.key,
					begin:   max(span.PosY-widest.before, 0), // other changes may have replaced the lines here
					end:     min(span.EndY+widest.behind, len(now.Lines)),
					visible: visible.Lines[span.PosX-widest.before : span.EndX+widest.behind],
				}
			}
		}
		if turned == 0 {
			news = append(news, all[i])
		} else {
			news = append(news, m.stableLines(visible, now, all[i:i+turned], in, stable)...)
		}
		i += max(turned, 1)
	}
	return news, stable
}

// A placeSpan is the present position of a place.
type placeSpan struct {
	key        uint64
	begin, end int
	visible    []string // its visible lines
}

// stableLines returns the changes of a place in lines that stay there, and counts the checks for which its
// lines have stayed.
func (m *marks) stableLines(visible, now *Core, all []diff.Hunk[string], in placeSpan, stable map[uint64]int) (hunks []diff.Hunk[string]) {
	for y := in.begin; y < in.end; y++ {
		long := 0
		for _, key := range in.keys(now.Lines[y], y) {
			long = max(long, m.stable[key]+1)
			if len(stable) < maxStable {
				stable[key] = m.stable[key] + 1
			}
		}
		for len(all) > 0 && all[0].EndY <= y {
			all = all[1:]
		}
		if len(all) == 0 || y < all[0].PosY {
			continue // unchanged here
		}
		h, last := all[0], len(hunks)-1
		x, even := h.PosX+y-h.PosY, growth(h) == 0
		if even {
			for _, key := range in.keys(visible.Lines[x], y) {
				long = max(long, m.stable[key])
			}
		}
		switch {
		case long <= stableChecks, slices.Contains(in.visible, now.Lines[y]):
		case !even:
			hunks, y = append(hunks, h), h.EndY-1
		case last >= 0 && hunks[last].EndY == y:
			hunks[last].EndX, hunks[last].EndY = x+1, y+1
		default:
			hunks = append(hunks, diff.Hunk[string]{PosX: x, EndX: x + 1, PosY: y, EndY: y + 1})
		}
	}
	return hunks
}

// keys returns the keys of a line by its distance from both ends of the place, which may grow at the other end.
func (s placeSpan) keys(text string, at int) [2]uint64 {
	place := strconv.FormatUint(s.key, 16)
	return [2]uint64{keyOf(place, strconv.Itoa(at-s.begin), text), keyOf(place, strconv.Itoa(at-s.end), text)}
}

// carryOver transfers marks when an edit changes the words of a counter, or lines beside a rotating place. It
// returns the changes outside of rotating places.
func (m *marks) carryOver(last, now *Core, all []diff.Hunk[string]) (edits []diff.Hunk[string]) {
	if !slices.ContainsFunc(m.list, func(f mark) bool { return f.isVolatile }) {
		return all
	}
	edits, _ = m.relevantChanges(last, now, all)
	g, to := m.anchorsOf(last.Lines), m.anchorsOf(now.Lines)
	m.moveMarks(g, to, edits)
	for _, h := range edits {
		if growth(h) == 0 && h.EndX-h.PosX <= largePlaceLines {
			was, is := skeletons(last.Lines[h.PosX:h.EndX]), skeletons(now.Lines[h.PosY:h.EndY])
			for i := range is {
				if is[i] != now.Lines[h.PosY+i] && is[i] != was[i] && similar(was[i], is[i]) && m.marked(keyOf(was[i])) {
					m.transfer(keyOf(is[i]), false)
				}
			}
		} else if h.PosX < h.EndX && h.PosY < h.EndY {
			continue // it is unknown which lines correspond
		}
		for begin := max(h.PosX-smallPlaceLines, 0); begin <= min(h.EndX, len(last.Lines)-1); begin++ {
			for end := max(begin+1, h.PosX); end <= min(begin+smallPlaceLines, len(last.Lines)); end++ {
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
	return edits
}

// moveMarks transfers marks when a rotating text is removed in one place and the same number of lines is added
// nearby: the lines of a list move down, and the advertisement after the third of them stays.
func (m *marks) moveMarks(last, now *anchors, edits []diff.Hunk[string]) {
	for _, h := range edits {
		size := h.EndX - h.PosX
		if h.PosY < h.EndY || size > smallPlaceLines {
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

// mapLine returns the position of a line after a change, by its distance from the lines after the change or
// from those before it. Within the change it is known if the change adds as many lines as it removes.
func mapLine(h diff.Hunk[string], at int, behind bool) (to int, ok bool) {
	if behind {
		return at + h.EndY - h.EndX, at >= h.EndX || growth(h) == 0
	}
	return at + h.PosY - h.PosX, at <= h.PosX || growth(h) == 0
}

// similar reports whether most words of each line are in the other.
func similar(was, is string) bool {
	a, b := strings.Fields(was), strings.Fields(is)
	return countCommon(a, b)*2 > len(a) && countCommon(b, a)*2 > len(b)
}
