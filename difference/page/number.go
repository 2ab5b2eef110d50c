package page

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tidings/internal/selection"
)

// figureOf returns the core of a page whose channel asks for a number: that number.
func figureOf(r *reader, rule *selection.Rule) (Core, error) {
	for i := range r.lines {
		if n, ok := firstNumber(withoutTargets(r.lines[i].text)); ok {
			return Core{Title: r.title, Lines: []string{formatNumber(n)}, Figure: true}, nil
		}
	}
	return Core{}, nothing("number", rule, "an element without a number")
}

func formatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// figure returns the number that is the only line of a text.
func figure(lines []string) (n float64, ok bool) {
	if len(lines) != 1 {
		return 0, false
	}
	n, err := strconv.ParseFloat(lines[0], 64)
	return n, err == nil && formatNumber(n) == lines[0]
}

// Told reports whether readers are told of a change on a page where a rule says what counts.
func (f *Result) Told(rule *selection.Rule) bool {
	switch {
	case rule.Added:
		return slices.ContainsFunc(f.Patch.Hunks, func(h Hunk) bool { return len(h.Add) > 0 })
	case rule.Number != nil:
		was, known := figure(f.Before.Lines)
		is, ok := figure(f.Core.Lines)
		return ok && rule.If.Holds(is) && !(known && rule.If.Op != "" && rule.If.Holds(was))
	}
	return true
}

// maxDigits bounds a number that is read, in digits. Longer ones are telephone numbers and codes.
const maxDigits = 15

// firstNumber returns the first number in a text, as people of any country write it: 1,234.50 or 1.234,50 or
// 1 234,50 or 1'234.50. The last of two different separators begins the decimals. One that occurs several times
// separates thousands, and so does a single one before exactly three digits, unless the number begins with 0.
func firstNumber(text string) (n float64, ok bool) {
	for start := 0; start < len(text); start++ {
		if !isDigit(text, start) {
			continue
		}
		end := numberEnd(text, start)
		if n, ok := parseNumber(text[start:end]); ok {
			if isNegative(text[:start]) {
				n = 0 - n // and not -n, which would be -0 for 0
			}
			return n, true
		}
		start = end
	}
	return 0, false
}

func isDigit(s string, at int) bool { return at < len(s) && '0' <= s[at] && s[at] <= '9' }

// numberEnd returns the end of the number that begins in a text: digits, and separators between digits. A blank
// and an apostrophe separate groups of three.
func numberEnd(text string, at int) int {
	for {
		for isDigit(text, at) {
			at++
		}
		c, size := utf8.DecodeRuneInString(text[at:])
		next := at + size
		switch c {
		case '.', ',':
			if !isDigit(text, next) {
				return at
			}
		case ' ', 0xa0, 0x202f, 0x2009, '\'', '’':
			if !isDigit(text, next) || !isDigit(text, next+1) || !isDigit(text, next+2) || isDigit(text, next+3) {
				return at
			}
		default:
			return at
		}
		at = next
	}
}

// parseNumber reads a number with its separators.
func parseNumber(s string) (n float64, ok bool) {
	point := strings.LastIndexAny(s, ".,") // where the decimals begin, if they do
	if point >= 0 {
		sign, whole := s[point:point+1], s[:point]
		alone := !strings.ContainsAny(whole, ".,")
		thousands := alone && len(s)-point == 4 && point <= 3 && s[0] != '0'
		if thousands || strings.Contains(whole, sign) {
			point = none
		}
	}
	var digits strings.Builder
	for i := range len(s) {
		switch {
		case i == point:
			digits.WriteByte('.')
		case isDigit(s, i):
			digits.WriteByte(s[i])
		}
	}
	n, err := strconv.ParseFloat(digits.String(), 64)
	return n, err == nil && digits.Len() <= maxDigits
}

// isNegative reports whether the text before a number ends with a minus sign, perhaps before a currency.
func isNegative(before string) bool {
	trimmed := strings.TrimRightFunc(before, unicode.IsSpace)
	if unit := strings.TrimRightFunc(trimmed, isCurrency); unit != trimmed {
		before = unit
	}
	for _, sign := range []string{"-", "−"} {
		if rest, ok := strings.CutSuffix(before, sign); ok {
			last, _ := utf8.DecodeLastRuneInString(rest)
			return rest == "" || unicode.IsSpace(last) || isCurrency(last) // otherwise it is a hyphen
		}
	}
	return false
}

func isCurrency(c rune) bool { return unicode.Is(unicode.Sc, c) }
