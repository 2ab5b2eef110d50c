package page

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxOpen bounds the open elements. Tags of deeper elements are ignored. Documents of people have some
	// dozens.
	maxOpen = 4096
	// maxLine is the maximum length of a line in bytes. Longer text continues in the next line.
	maxLine = 64 << 10
	// maxLines bounds the lines of a core. Later lines are dropped.
	maxLines = 1 << 16
	// maxRead bounds the bytes of lines that are read of a page: four times the maximum text of a channel.
	maxRead = 4 * MaxText
	// maxRegions bounds the regions that may be noise. Later regions are content.
	maxRegions = 1 << 16
	// maxTitle bounds a title in bytes.
	maxTitle = 1 << 10
)

// A Core is the content of a document: non-empty lines of text without leading, trailing or repeated blanks.
type Core struct {
	Title string
	Lines []string

	rows        []int       // when parsed: for each line the row of a list, or none
	sheet       sheet       // when parsed: the rows of the lists
	all         []sidedLine // when parsed: the lines of the document, if some passages may be noise
	complete    bool        // when parsed: the document is data, and all its elements are closed
	hasPassword bool        // when parsed: it has a field for a password

	// Figure says that the core is a number for which its channel asks. A Tracker learns nothing of it.
	Figure bool
}

// A Hash identifies a core by its lines. The title is not included, because it often has decorations. The hash
// is the first half of the text's SHA-256. It detects wrong lines; signatures protect against attackers.
type Hash [16]byte

// Hash returns the hash of the core.
func (c *Core) Hash() Hash {
	sum := sha256.Sum256([]byte(c.Text()))
	return Hash(sum[:])
}

// Text returns the lines, each with a line end.
func (c *Core) Text() string {
	if len(c.Lines) == 0 {
		return ""
	}
	return strings.Join(c.Lines, "\n") + "\n"
}

// maxShown and maxShownLine bound what a trial of a channel shows: lines, and bytes of a line.
const (
	maxShown     = 5
	maxShownLine = 200
)

// Beginning returns the first lines, shortened and without the targets of links, for a person who tries what counts.
func (c *Core) Beginning() (lines []string) {
	for _, l := range c.Lines[:min(len(c.Lines), maxShown)] {
		if l = withoutTargets(l); len(l) > maxShownLine {
			l = strings.ToValidUTF8(l[:maxShownLine], "") + "…"
		}
		lines = append(lines, l)
	}
	if more := len(c.Lines) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("… (%d more)", more))
	}
	return lines
}

// size returns the length of the text in bytes.
func (c *Core) size() (n int) {
	for _, l := range c.Lines {
		n += len(l) + 1
	}
	return n
}

// A line is a line of a document before its content is selected.
type line struct {
	text   string
	plain  int  // bytes outside of links
	linked int  // bytes in links
	inPage bool // the last of its links leads to a place of the same page
	region int  // its region that may be noise; none: no such region
	row    int  // its row of an unordered list; none: it is in no such list
}

// isMenu reports whether a line consists almost only of links. A long line may be a headline.
func (l *line) isMenu() bool { return l.linked > 0 && l.plain*4 < l.linked && l.linked < 120 }

// isSkipLink reports whether a line is only a link within the page. As the first line of a page, it helps
// screen readers.
func (l *line) isSkipLink() bool {
	return l.plain == 0 && l.inPage
}

// isCopyright reports whether a line names the owner of the page and a year.
func (l *line) isCopyright() bool {
	return len(l.text) < 200 && strings.Contains(l.text, "©") && year.MatchString(l.text) ||
		len(l.text) < 120 && len(l.text) > 9 && strings.EqualFold(l.text[:9], "copyright") && sinceYear.MatchString(l.text[9:])
}

var (
	year      = regexp.MustCompile(`\b(?:19|20)\d\d\b`)
	sinceYear = regexp.MustCompile(`(?i)^\W*(?:c\W+)?(?:19|20)\d\d\b|\b(?:19|20)\d\d\b.*\ball rights reserved\b`)
)

// normalise returns a text in the Unicode form NFC, with one encoding for letters with accents.
func normalise(s string) string {
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			continue
		}
		if composed := norm.NFC.String(s); len(composed) <= 2*maxLine { // some characters become longer
			return composed
		}
		break
	}
	return s
}

// A run of menuRun lines of links is a menu, unless it is a good part of the page (see contentShare). A run
// whose labels have labelLength bytes on average is a list of articles.
const (
	menuRun     = 3
	labelLength = 28
)

// content returns the core: the lines that are neither in noise regions nor in menus. All lines of a page whose
// channel selects are content.
func content(lines []line, regions []region, selects bool) Core {
	noise := noisy(regions, lines)
	var calm volatileFilter
	all, size, doubts := make([]sidedLine, 0, len(lines)), 0, false
	source := make([]*line, 0, len(lines)) // the lines of all
	kept := make([]int, 0, len(lines))     // indexes of lines outside of noise regions
	for i := range lines {
		l := &lines[i]
		s := sidedLine{passage: l.region + 1, left: l.region != none && noise[l.region]}
		if !s.left && !selects && (len(kept) == 0 && l.isSkipLink() || l.isCopyright()) {
			continue
		}
		if doubts = doubts || s.passage != 0; !s.left {
			kept = append(kept, len(all))
			size += l.plain + l.linked
		}
		s.text, s.row = calm.strip(l.text), l.row
		all, source = append(all, s), append(source, l)
	}
	for begin := 0; begin < len(kept) && !selects; {
		end, links := begin, 0
		for end < len(kept) && source[kept[end]].isMenu() {
			links += source[kept[end]].plain + source[kept[end]].linked
			end++
		}
		menu := end-begin >= menuRun && links*contentShare < size && links < labelLength*(end-begin)
		for _, i := range kept[begin:end] {
			all[i].passage, all[i].left, doubts = len(regions)+1+begin, menu, true
		}
		begin = max(end, begin+1)
	}
	var c Core
	c.Lines, c.rows = contentLines(all)
	if doubts {
		c.all = all
	}
	return c
}
