package page

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/currency"
	"znkr.io/diff"
)

// Some lines are read for their figure: a price, and whether a thing can be had. Such a line is news each time
// that it changes. It becomes volatile only if it changes at figureChanges checks in a row, as a ticker does.
const figureChanges = 8

// maxAmounts is how many amounts of a page change at one check at most, so that they are read for themselves.
// More of them are a list, of other things at each check.
const maxAmounts = 2

// maxFigure is the maximum length of such a line in bytes. In a longer line a price is a part of a sentence.
const maxFigure = 120

// amount matches a number beside the sign or the name of a currency, or behind a word for a price.
var amount = regexp.MustCompile(`\p{Sc} ?\d|\d ?\p{Sc}|\d[\d.,' ]*(?:[,.][-–])? ?(?:(?:kr|zł|Kč|Ft|Fr|лв|руб|lei)(?:\PL|$)|元|円|원)|\b(?:kr|Fr|Rs|R)\.? ?\d` +
	`|(?i:(?:^|\PL)(?:price|preis|prix|precio|preço|prezzo|prijs|cena|pris|цена)\W{0,3}\d)`)

// coded matches a number beside three capitals, which may be the code of a currency.
var coded = regexp.MustCompile(`\b([A-Z]{3}) ?\d|\d(?:[.,]-)? ?([A-Z]{3})\b`)

// stock matches what shops say about a thing that can be had or not.
var stock = regexp.MustCompile(`(?i)(?:^|\PL)(?:in stock|out of stock|(?:only |last )?\d+ (?:items? |pieces? )?(?:left|remaining)|sold[- ]?out|(?:un)?available|back ?order(?:ed)?|pre-?order|` +
	`ausverkauft|vergriffen|(?:nicht )?(?:lieferbar|vorrätig|verfügbar)|auf lager|en stock|épuisée?|rupture de stock|(?:no |in)?disponible|agotad[oa]|sin existencias|(?:non )?disponibile|esaurit[oa]|` +
	`uitverkocht|op voorraad|esgotad[oa]|disponível|em estoque|udsolgt|på lager|slutsåld|i lager|loppuunmyyty|dostępn[yae]|wyprzedan[yae]|brak w magazynie)(?:\PL|$)|в наличии|нет в наличии|在庫|売り切れ|品切れ|缺货|有货|现货|품절|재고`)

// isFigure reports whether a line is read for its figure.
func isFigure(line string) bool {
	return len(line) <= maxFigure && (isAmount(line) || stock.MatchString(line))
}

// isAmount reports whether a line states an amount of money.
func isAmount(line string) bool {
	if len(line) > maxFigure || !strings.ContainsAny(line, "0123456789") { // a cheap test before the expensive matches
		return false
	}
	if amount.MatchString(line) {
		return true
	}
	for _, m := range coded.FindAllStringSubmatch(line, -1) {
		if _, err := currency.ParseISO(m[1] + m[2]); err == nil {
			return true
		}
	}
	return false
}

// amountsIn returns the lines with an amount of money that changes add to a text; none if they are more than maxAmounts.
func amountsIn(now []string, all []diff.Hunk[string]) (amounts []string) {
	for _, h := range all {
		for _, l := range now[h.PosY:h.EndY] {
			if !isAmount(l) {
				continue
			}
			if amounts = append(amounts, l); len(amounts) > maxAmounts {
				return nil
			}
		}
	}
	return amounts
}

// areAmounts reports whether amounts of money replace each other: whether each removed line states one, and each added line
// is one of amounts.
func areAmounts(omit, add, amounts []string) bool {
	return len(omit) > 0 && len(add) > 0 && len(add) <= len(amounts) &&
		!slices.ContainsFunc(add, func(l string) bool { return !slices.Contains(amounts, l) }) &&
		!slices.ContainsFunc(omit, func(l string) bool { return !isAmount(l) })
}
