package proxy

import (
	"context"
	"net/http"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// offerSubscription shows the page that asks whether to subscribe to an address. If the address says what counts on a
// page, that is tried and shown.
func (s *Server) offerSubscription(w http.ResponseWriter, r *http.Request, address string) error {
	offered := struct {
		URL     string
		Counts  []string
		Warning string
	}{URL: address}
	if saysWhatCounts(address) {
		ctx, cancel := context.WithTimeout(r.Context(), inspectTime)
		defer cancel()
		_, counts, warning, err := s.chooseTarget(ctx, address)
		if err != nil {
			return err
		}
		if offered.Counts = counts; warning != nil {
			offered.Warning = oneLine(warning.Error())
		}
	}
	return s.writePage(w, r, http.StatusOK, "add.html", locale.Say("New subscription"), offered)
}

// saysWhatCounts reports whether an address says what counts on a page.
func saysWhatCounts(address string) bool {
	rule, _ := feed.WhatCounts(address) // of a canonical address
	return !rule.IsZero()
}
