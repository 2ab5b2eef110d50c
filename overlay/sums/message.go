package sums

import (
	"fmt"
	"hash/fnv"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// parse reads a message and checks every bound, so that no other code has to.
func parse(body []byte) (*sumspb.Message, error) {
	m := new(sumspb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if what := breaks(m); what != "" {
		return nil, fmt.Errorf("%w: sums message: %s", env.ErrFrame, what)
	}
	return m, nil
}

// breaks says which bound a message breaks, if any.
func breaks(m *sumspb.Message) string {
	switch b := m.Body.(type) {
	case *sumspb.Message_Ask:
		if b.Ask.Digits > overlay.Digits {
			return "ask: digits"
		}
	case *sumspb.Message_Give:
		switch {
		case b.Give.Digits > overlay.Digits:
			return "give: digits"
		case len(b.Give.Value) > MaxValue:
			return "give: value"
		case b.Give.Early && (b.Give.Version != 0 || len(b.Give.Value) > 0):
			return "give: early"
		case len(b.Give.Value) > 0 && b.Give.Version != versionOf(b.Give.Value):
			return "give: version"
		}
	default:
		return "no body"
	}
	return ""
}

// versionOf names a value; no value has version 0.
func versionOf(value []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(value) // never fails
	return max(h.Sum64(), 1)
}
