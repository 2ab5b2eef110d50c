package page

import (
	"crypto/sha256"
	"regexp"
	"strings"
)

const (
	// maxOpen is how many elements may be open; of those beyond, the tags are not looked at.
	// Documents of people have some dozens.
	maxOpen = 4096
	// maxLine is the longest line in bytes. What is longer goes on in the next.
	maxLine = 64 << 10
	// maxLines is how many lines are read; what comes after them is not part of the core.
	maxLines = 1 << 18
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
func (l *line) menu() bool { return l.linked > 0 && l.plain*4 < l.linked && l.linked < 120 }

// skip says whether it only leads to another place of the same page: as the first of a page,
// it is for those who read without seeing.
func (l *line) skip() bool {
	return l.plain == 0 && l.inPage
}

// owner says whether a line says whose the page is, and since when.
func (l *line) owner() bool {
	return (len(l.text) < 200 && strings.Contains(l.text, "©") ||
		len(l.text) < 120 && len(l.text) > 9 && strings.EqualFold(l.text[:9], "copyright")) && year.MatchString(l.text)
}

var year = regexp.MustCompile(`\b(?:19|20)\d\d\b`)

// A run of so many lines of links is a menu, unless they are a good part of the page (see large), or
// as long as label bytes on average: then it is a list of what it tells of.
const (
	menuRun = 3
	label   = 28
)

// content returns those lines that are neither in regions that are noise, nor in menus.
func content(lines []line, regions []region) []string {
	noise := judge(regions, lines)
	kept, all := make([]*line, 0, len(lines)), 0
	for i := range lines {
		l := &lines[i]
		if l.region != none && noise[l.region] || len(kept) == 0 && l.skip() || l.owner() {
			continue
		}
		kept = append(kept, l)
		all += l.plain + l.linked
	}
	var calm calm
	of := make([]string, 0, len(kept))
	for begin := 0; begin < len(kept); {
		end, links := begin, 0
		for end < len(kept) && kept[end].menu() {
			links += kept[end].plain + kept[end].linked
			end++
		}
		if end-begin >= menuRun && links*large < all && links < label*(end-begin) {
			begin = end
		}
		for end = min(max(end, begin+1), len(kept)); begin < end; begin++ {
			of = append(of, calm.still(kept[begin].text))
		}
	}
	return of
}
