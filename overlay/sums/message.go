package sums

import (
	"fmt"
	"hash/fnv"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// parse decodes a message and checks all bounds, so that no other code has to.
func parse(body []byte) (*sumspb.Message, error) {
	m := new(sumspb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if what := violation(m); what != "" {
		return nil, fmt.Errorf("%w: sums message: %s", env.ErrFrame, what)
	}
	return m, nil
}

// violation names the bound that a message violates, or returns "".
func violation(m *sumspb.Message) string {
	switch b := m.Body.(type) {
	case *sumspb.Message_Request:
		if b.Request.Digits > overlay.Digits {
			return "ask: digits"
		}
	case *sumspb.Message_Response:
		switch {
		case b.Response.Digits > overlay.Digits:
			return "give: digits"
		case len(b.Response.Value) > MaxValue:
			return "give: value"
		case b.Response.Incomplete && (b.Response.Version != 0 || len(b.Response.Value) > 0):
			return "give: early"
		case len(b.Response.Value) > 0 && b.Response.Version != versionOf(b.Response.Value):
			return "give: version"
		}
	default:
		return "no body"
	}
	return ""
}

// versionOf returns the version of a value, which is never 0.
func versionOf(value []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(value) // never fails
	return max(h.Sum64(), 1)
}
