package page

import (
	"fmt"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for line, want := range map[string]bool{
		"129.00 EUR": true, "€129": true, "1 299 kr": true, "$ 5": true, "ab 12,90 €": true, "CHF 12.-": true, "Price: 12": true, "1.299,- zł": true, "12 元": true,
		"4117 visitors": false, "12 May 2026": false, "Page 3 of 4": false, "ABC 129": false, "Release 1.2": false, "Kreis 12": false, "12 krabs": false,
	} {
		if got := isAmount(line); got != want {
			t.Errorf("%s: an amount: %v", line, got)
		}
	}
	for line, want := range map[string]bool{
		"In stock": true, "Out of stock": true, "Only 2 left": true, "Sofort lieferbar": true, "Ausverkauft": true, "Épuisé": true, "在庫あり": true,
		"Left of the door": false, "Stockholm": false, "The availability of rooms": false,
	} {
		if got := isFigure(line); got != want {
			t.Errorf("%s: a figure: %v", line, got)
		}
	}
}

// A price that moves is told each time, up and down and several times in a row, and so is the stock.
func TestPricesAndStocksAreTold(t *testing.T) {
	w := newChecker(t)
	bike := func(price, stock string) []string {
		return []string{"A bicycle for the city", "Steel, seven gears, lights.", price, stock, "Add it to your basket", "Delivered by a cyclist."}
	}
	prices := []int{420, 400, 420, 400, 420, 380, 390}
	for i, p := range prices {
		for range 3 {
			w.at = w.at.Add(12 * time.Hour)
			f := w.m.Check(lines(bike(fmt.Sprintf("%d €", p), []string{"In stock", "Sold out"}[i/2%2])...), w.at)
			if want := f.Number == uint64(i+1); f.Kind == Changed && !want {
				t.Errorf("told at %d", i)
			}
		}
		if w.m.Number() != uint64(i+1) {
			t.Fatalf("price %d: version %d", i, w.m.Number())
		}
	}
	for i := range figureChanges - 1 {
		w.at = w.at.Add(12 * time.Hour)
		w.check(Changed, bike(fmt.Sprintf("%d €", 300-i), "In stock")...)
	}
}

// A ticker is learned after more changes than a price has, and a number of visitors after a few.
func TestTickersAreLearned(t *testing.T) {
	w := newChecker(t)
	told := 0
	for i := range 40 {
		w.at = w.at.Add(12 * time.Hour)
		if w.m.Check(lines("One ounce of silver", fmt.Sprintf("%d.%02d USD", 20+i%7, i*37%100), "Quoted in London", "The market closes at five."), w.at).Kind == Changed && i > 0 {
			told++
		}
	}
	if told < figureChanges-1 || told > figureChanges {
		t.Errorf("told %d times", told)
	}
}
