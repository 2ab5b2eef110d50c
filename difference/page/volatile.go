package page

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ago matches relative times, which change by themselves.
var ago = regexp.MustCompile(`(?i)\b(?:just now|moments? ago|(?:\d+|an?|one|a few) ?(?:s|sec|secs|seconds?|m|min|mins|minutes?|h|hrs?|hours?|d|days?|w|weeks?|mo|months?|y|years?) ago` +
	`|vor (?:\d+|eine[rmn]?) (?:sekunden?|minuten?|stunden?|tag(?:en)?|wochen?|monat(?:en)?|jahr(?:en)?)` +
	`|il y a (?:\d+|une?) (?:secondes?|minutes?|heures?|jours?|semaines?|mois|ans?)` +
	`|hace (?:\d+|una?) (?:segundos?|minutos?|horas?|días?|semanas?|mes(?:es)?|años?)` +
	`|há (?:\d+|uma?) (?:segundos?|minutos?|horas?|dias?|semanas?|mês|meses|anos?)` +
	`|\d+ \pL+ (?:geleden|fa\b|назад|önce|temu\b|sedan|siden))` + `|\d+ ?(?:秒|分钟|分鐘|小时|小時|天|週間?|周|个月|個月|年|分|時間|日|か月)前`)

// counted matches numbers that visitors increase, beside their names.
var counted = regexp.MustCompile(`(?i)\b\d[\d,. ]*[km]? (?:views?|visits?|visitors?|hits|reads|likes?|shares?|downloads?|followers|online|comments?|replies|` +
	`aufrufe|besucher|kommentare?|vues|commentaires?|visitas|comentarios?|comentários?|visualizzazioni|commenti|weergaven|reacties)\b` +
	`|\b(?:views|visits|visitors|hits|page views|likes|shares|downloads|followers|online|comments|replies|aufrufe|kommentare|commentaires|comentarios|comentários|commenti)` +
	`(?: ?\([\d,.]+\)|: ?\d[\d,.]*[km]?)|\d[\d,. ]* (?:просмотр|комментари)\pL*|\d[\d,]* ?(?:回閲覧|件のコメント|次浏览|条评论)`)

// ellipsis replaces removed text.
const ellipsis = "…"

// maxAside is the maximum length of a line from which relative times are removed, in bytes. In a sentence of a
// contract "3 days ago" is content.
const maxAside = 240

// maxCounts is the maximum length of a line from which counts are removed, in bytes.
const maxCounts = 120

// maxMatches bounds the expensive matches in one document. Pages of people need hundreds.
const maxMatches = 1 << 11

// A volatileFilter removes volatile text from a document's lines.
type volatileFilter struct{ matches int }

// strip returns a line without volatile text.
func (c *volatileFilter) strip(text string) string {
	if len(text) > maxAside || c.matches >= maxMatches {
		return text
	}
	numbers, when := strings.ContainsAny(text, "0123456789"), agoWords
	if !numbers {
		when = agoWordsAlone
	}
	if containsAny(text, when...) { // a cheap test before the expensive match
		c.matches++
		if rest := ago.ReplaceAllString(text, ellipsis); countWords(rest) <= besideAgo {
			text = rest
		}
	}
	if numbers && len(text) <= maxCounts && containsAny(text, "iew", "IEW", "isit", "ISIT", "its", "HITS", "ike", "LIKE", "hare", "SHARE", "ownload", "DOWNLOAD", "ollower", "nline", "eads",
		"omment", "OMMENT", "epl", "ufruf", "esuch", "vues", "isual", "eergav", "eact", "omentar", "просм", "коммент", "閲覧", "コメント", "浏览", "评论") {
		c.matches++
		if rest := counted.ReplaceAllString(text, ellipsis); countWords(rest) <= besideCount {
			text = rest
		}
	}
	return text
}

// agoWords are in all lines with a relative time, and agoWordsAlone in those without digits.
var (
	agoWords      = strings.Split("ago|now|AGO|vor |Vor |il y a|Il y a|hace |Hace |há |Há |前|geleden| fa|назад|önce|temu|sedan|siden", "|")
	agoWordsAlone = strings.Split("ago|now|AGO|vor ein|Vor ein|il y a un|Il y a un|hace un|Hace un|há um|Há um", "|")
)

// besideAgo and besideCount bound the other words of a line with a relative time, or with a count. In a longer
// sentence, or in "5 downloads per month", these may be content.
const (
	besideAgo   = 6
	besideCount = 1
)

// countWords counts the words of a text. In languages without blanks between words it counts letters.
func countWords(text string) (n int) {
	within := false
	for _, c := range text {
		letter := unicode.IsLetter(c)
		if letter && (!within || c >= 0x0E00 && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer)) {
			n++
		}
		within = letter
	}
	return n
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

// dates are the words that stand with numbers in a date or time.
var dates = map[string]bool{}

func init() {
	for _, w := range strings.Fields("january february march april may june july august september october november december " +
		"jan feb mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday " +
		"mon tue wed thu fri sat sun am pm utc gmt a an one second seconds minute minutes hour hours day days week weeks month months year years") {
		dates[w] = true
	}
}

// skeleton returns a line without its numbers, names of days and months, and random tokens. Two lines with one
// skeleton say the same at two times. ok is false if no word remains.
func skeleton(text string) (of string, ok bool) {
	var b strings.Builder
	words := 0
	for len(text) > 0 {
		end, digits := 0, 0
		for end < len(text) {
			c, size := utf8.DecodeRuneInString(text[end:])
			if unicode.IsDigit(c) {
				digits++
			} else if !unicode.IsLetter(c) {
				break
			}
			end += size
		}
		word := text[:end]
		switch {
		case end == 0:
			_, end = utf8.DecodeRuneInString(text)
			b.WriteString(text[:end])
		case digits > 0, len(word) <= len("september") && dates[strings.ToLower(word)]:
			b.WriteByte('0')
		default:
			words++
			b.WriteString(word)
		}
		text = text[end:]
	}
	return squeeze(b.String()), words > 0
}

// squeeze combines numbers with punctuation between them, so that 1,234 equals 987.
func squeeze(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '0' {
			b.WriteByte(s[i])
			i++
			continue
		}
		b.WriteByte('0')
		i++
		for i < len(s) { // zeros with one blank and two signs between them at most
			j := i
			for j < len(s) && j < i+3 && strings.IndexByte(" ,.:/-+", s[j]) >= 0 {
				j++
			}
			if j == len(s) || s[j] != '0' {
				break
			}
			i = j + 1
		}
	}
	return b.String()
}
