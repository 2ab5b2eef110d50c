package page

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxOpen is how many elements may be open; of those beyond, the tags are not looked at.
	// Documents of people have some dozens.
	maxOpen = 4096
	// maxLine is the longest line in bytes. What is longer goes on in the next.
	maxLine = 64 << 10
	// maxLines is how many lines are read; what comes after them is not part of the core.
	maxLines = 1 << 16
	// maxRead is how many bytes of lines are read of a page: four times the text that a channel can have.
	maxRead = 4 * MaxText
	// maxRegions is how many regions may be noise; those beyond are content.
	maxRegions = 1 << 16
	// maxTitle is how many bytes of a title are kept.
	maxTitle = 1 << 10
)

// A Core is the content of a document: lines of text without leading, trailing or doubled
// blanks, none of them empty.
type Core struct {
	Title string
	Lines []string

	all         []sidedLine // as read: the lines of the document, if it has passages that may be noise
	complete    bool        // as read: it is data, and nothing of it is left open
	hasPassword bool        // as read: it has a field for a password
}

// A Hash tells cores apart by their lines; the title is no part of it, because it comes with
// ornaments. It is the first half of the text's SHA-256: it says whether the right lines
// are there, and those who send them are believed by their signatures.
type Hash [16]byte

// Hash is that of the core.
func (c *Core) Hash() Hash {
	sum := sha256.Sum256([]byte(c.Text()))
	return Hash(sum[:])
}

// Text is the lines, each with its end.
func (c *Core) Text() string {
	if len(c.Lines) == 0 {
		return ""
	}
	return strings.Join(c.Lines, "\n") + "\n"
}

// size is how many bytes of text there are.
func (c *Core) size() (n int) {
	for _, l := range c.Lines {
		n += len(l) + 1
	}
	return n
}

// A line is one of a document, before it is known what of it is content.
type line struct {
	text   string
	plain  int  // bytes of it that are in no link,
	linked int  // and that are in one
	inPage bool // the last of its links leads to a place of the same page
	region int  // in which it stands; none: in no region that may be noise
}

// menu says whether a line is a link or some, and little else. A long one may be a headline.
func (l *line) isMenu() bool { return l.linked > 0 && l.plain*4 < l.linked && l.linked < 120 }

// skip says whether it only leads to another place of the same page: as the first of a page,
// it is for those who read without seeing.
func (l *line) isSkipLink() bool {
	return l.plain == 0 && l.inPage
}

// owner says whether a line says whose the page is, and since when.
func (l *line) isCopyright() bool {
	return len(l.text) < 200 && strings.Contains(l.text, "©") && year.MatchString(l.text) ||
		len(l.text) < 120 && len(l.text) > 9 && strings.EqualFold(l.text[:9], "copyright") && sinceYear.MatchString(l.text[9:])
}

var (
	year      = regexp.MustCompile(`\b(?:19|20)\d\d\b`)
	sinceYear = regexp.MustCompile(`(?i)^\W*(?:c\W+)?(?:19|20)\d\d\b|\b(?:19|20)\d\d\b.*\ball rights reserved\b`)
)

// composed is a text with its accents on their letters: Unicode has two ways to write them (NFC).
func normalize(s string) string {
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			continue
		}
		if of := norm.NFC.String(s); len(of) <= 2*maxLine { // some signs become longer
			return of
		}
		break
	}
	return s
}

// A run of so many lines of links is a menu, unless they are a good part of the page (see large), or
// as long as label bytes on average: then it is a list of what it tells of.
const (
	menuRun     = 3
	labelLength = 28
)

// content returns the core of those lines that are neither in regions that are noise, nor in menus.
func content(lines []line, regions []region) Core {
	noise := noisy(regions, lines)
	var calm volatileFilter
	all, size, doubts := make([]sidedLine, 0, len(lines)), 0, false
	of := make([]*line, 0, len(lines)) // the lines that all has
	kept := make([]int, 0, len(lines)) // those of them that are in no region that is noise
	for i := range lines {
		l := &lines[i]
		s := sidedLine{passage: l.region + 1, left: l.region != none && noise[l.region]}
		if !s.left && (len(kept) == 0 && l.isSkipLink() || l.isCopyright()) {
			continue
		}
		if doubts = doubts || s.passage != 0; !s.left {
			kept = append(kept, len(all))
			size += l.plain + l.linked
		}
		s.text = calm.strip(l.text)
		all, of = append(all, s), append(of, l)
	}
	for begin := 0; begin < len(kept); {
		end, links := begin, 0
		for end < len(kept) && of[kept[end]].isMenu() {
			links += of[kept[end]].plain + of[kept[end]].linked
			end++
		}
		menu := end-begin >= menuRun && links*contentShare < size && links < labelLength*(end-begin)
		for _, i := range kept[begin:end] {
			all[i].passage, all[i].left, doubts = len(regions)+1+begin, menu, true
		}
		begin = max(end, begin+1)
	}
	c := Core{Lines: contentLines(all)}
	if doubts {
		c.all = all
	}
	return c
}
