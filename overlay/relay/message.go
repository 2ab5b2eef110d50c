package relay

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay/relaypb"
)

const (
	// maxEnvelope bounds the envelopes of keys and vouchers in bytes. Both are about a third of it.
	maxEnvelope = 512
	// maxPeerID bounds a peer id, which has 38 bytes.
	maxPeerID = 64
	// maxAddresses and maxAddress bound what a reader says about where a member is, as records do.
	maxAddresses, maxAddress = 8, 64
	keySize                  = 32 // of an X25519 key in bytes
)

// parse decodes a message and checks all bounds, so that no other code has to.
func parse(body []byte) (*relaypb.Message, error) {
	m := new(relaypb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	valid := false
	switch b := m.Body.(type) {
	case *relaypb.Message_Open:
		valid = len(b.Open.Exit) <= overlay.MaxRecord
	case *relaypb.Message_Opened:
		valid = len(b.Opened.Key) <= maxEnvelope
	case *relaypb.Message_Data:
		d := b.Data
		valid = (len(d.Encapsulated) == 0 || len(d.Encapsulated) == keySize) && classOf(len(d.Sealed)-overhead) == len(d.Sealed)-overhead
	case *relaypb.Message_Close:
		valid = true
	case *relaypb.Message_Forward:
		valid = len(b.Forward.Voucher) <= maxEnvelope
	case *relaypb.Message_Return:
		valid = len(b.Return.Guest) <= maxPeerID
	}
	if !valid {
		return nil, fmt.Errorf("%w: %T is out of bounds", env.ErrFrame, m.Body)
	}
	return m, nil
}

// parsePassage decodes what was in a sealed frame.
func parsePassage(b []byte) (*relaypb.Passage, error) {
	p := new(relaypb.Passage)
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if len(p.Peer) > maxPeerID || len(p.Voucher) > maxEnvelope || len(p.Addresses) > maxAddresses {
		return nil, fmt.Errorf("%w: a passage is out of bounds", env.ErrFrame)
	}
	for _, a := range p.Addresses {
		if len(a) > maxAddress {
			return nil, fmt.Errorf("%w: an address of %d bytes", env.ErrFrame, len(a))
		}
	}
	return p, nil
}

// mayPass reports whether a frame belongs to a layer that clients use. Orders to poll, sums and circuits of guests
// do not pass: an exit serves readers, and no others.
func mayPass(frame []byte) bool {
	layer, _, err := wire.ParseFrame(frame)
	if err != nil {
		return false
	}
	switch layer {
	case wire.Overlay, wire.Scribe, wire.Owner, wire.Feed:
		return true
	}
	return false
}
