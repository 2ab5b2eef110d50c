package wire

import (
	"errors"
	"fmt"
	"unicode"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire/wirepb"
)

// Version and MinVersion are the newest and the oldest version of the protocol that this code speaks.
const (
	Version    = 2
	MinVersion = 2
)

// MaxHello is the maximum size of a Hello or Reply in bytes.
const MaxHello = MaxDescriptor + 1<<10

// A Side holds the parameters of one end of a link for the handshake.
type Side struct {
	MinVersion, MaxVersion uint32 // supported versions; zero: those of this code
	Name                   string // the network's name; empty: any, for a node that knows only an address
	Descriptor             []byte // the network's descriptor; nil: not known yet
	Agent                  string // software and release
}

// name returns the network's name, if necessary from the descriptor.
func (s Side) name() string {
	if s.Name == "" && s.Descriptor != nil {
		n, _ := ParseDescriptor(s.Descriptor)
		return n.Name
	}
	return s.Name
}

// versions returns the supported range.
func (s Side) versions() (lowest, highest uint32) {
	if s.MaxVersion == 0 {
		return MinVersion, Version
	}
	return s.MinVersion, s.MaxVersion
}

// A RefusedError says that one side of a link refused the other, and why.
type RefusedError struct {
	Reason  wirepb.Refusal_Reason
	Message string // one line for an operator
}

func (e *RefusedError) Error() string { return "refused: " + e.Message }

// ErrHello says that the bytes are neither a Hello nor a Reply.
var ErrHello = errors.New("not a handshake")

// Hello returns the first message of the dialler.
func (s Side) Hello() []byte {
	lowest, highest := s.versions()
	h := &wirepb.Hello{MinVersion: lowest, MaxVersion: highest, Name: s.name(), Agent: s.Agent}
	if s.Descriptor != nil {
		hash := HashOf(s.Descriptor)
		h.Network = hash[:]
	}
	return Encode(h)
}

// Answer reads a Hello and returns the Reply to send and the version to use. If the reply is a refusal,
// Answer also returns a RefusedError, and the stream is closed after the reply. A malformed Hello gets
// no reply.
func (s Side) Answer(hello []byte) (reply []byte, version uint32, err error) {
	var h wirepb.Hello
	if len(hello) > MaxHello || proto.Unmarshal(hello, &h) != nil {
		return nil, 0, ErrHello
	}
	version, refused := s.negotiate(&h)
	if refused != nil {
		r := &wirepb.Refusal{Reason: refused.Reason, Message: refused.Message}
		return Encode(&wirepb.Reply{Reply: &wirepb.Reply_Refusal{Refusal: r}}), 0, refused
	}
	w := &wirepb.Welcome{Version: version, Network: s.Descriptor, Agent: s.Agent}
	return Encode(&wirepb.Reply{Reply: &wirepb.Reply_Welcome{Welcome: w}}), version, nil
}

func (s Side) negotiate(h *wirepb.Hello) (uint32, *RefusedError) {
	lowest, highest := s.versions()
	version := min(h.MaxVersion, highest)
	if version < h.MinVersion || version < lowest {
		return 0, &RefusedError{wirepb.Refusal_VERSION, fmt.Sprintf(
			"no common version of the protocol: the dialled node speaks %d to %d, and the dialling one %d to %d",
			lowest, highest, h.MinVersion, h.MaxVersion)}
	}
	name := s.name()
	if name != "" && h.Name != "" && h.Name != name {
		return 0, &RefusedError{wirepb.Refusal_NETWORK, fmt.Sprintf(
			"the node that was asked is in network %q, and the node that asks wants %q", name, sanitise(h.Name))}
	}
	if s.Descriptor == nil {
		return 0, &RefusedError{wirepb.Refusal_BUSY, "the dialled node is still joining a network itself; try again"}
	}
	if own := HashOf(s.Descriptor); len(h.Network) > 0 && string(h.Network) != string(own[:]) {
		return 0, &RefusedError{wirepb.Refusal_NETWORK, fmt.Sprintf(
			"network %q has other settings at the other node: the settings that tidings status shows must be the same at both", name)}
	}
	return version, nil
}

// CheckReply reads the Reply to a Hello. It returns the version to use and the network's descriptor,
// which equals the side's own if it has one.
func (s Side) CheckReply(reply []byte) (version uint32, descriptor []byte, err error) {
	var r wirepb.Reply
	if len(reply) > MaxHello || proto.Unmarshal(reply, &r) != nil {
		return 0, nil, ErrHello
	}
	if refusal := r.GetRefusal(); refusal != nil {
		return 0, nil, &RefusedError{refusal.Reason, sanitise(refusal.Message)}
	}
	w := r.GetWelcome()
	if w == nil {
		return 0, nil, ErrHello
	}
	lowest, highest := s.versions()
	if w.Version < lowest || w.Version > highest {
		return 0, nil, &RefusedError{wirepb.Refusal_VERSION, fmt.Sprintf(
			"the peer chose version %d of the protocol, and this node speaks %d to %d", w.Version, lowest, highest)}
	}
	n, err := ParseDescriptor(w.Network)
	if err != nil {
		return 0, nil, err
	}
	name := s.name()
	switch {
	case name != "" && n.Name != name:
		return 0, nil, &RefusedError{wirepb.Refusal_NETWORK, fmt.Sprintf(
			"the node that was asked is in network %q, and the node that asks wants %q", n.Name, name)}
	case s.Descriptor != nil && HashOf(s.Descriptor) != HashOf(w.Network):
		own, _ := ParseDescriptor(s.Descriptor) // a node reads its own descriptor before it dials
		return 0, nil, &RefusedError{wirepb.Refusal_NETWORK, fmt.Sprintf(
			"network %q has other settings at the peer: %s", n.Name, own.Differences("here", n, "there"))}
	}
	return w.Version, w.Network, nil
}

// sanitise makes text of another node safe to print in one line, and limits it to 200 characters.
func sanitise(s string) string {
	const limit = 200
	b := make([]rune, 0, len(s))
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = '?'
		}
		if b = append(b, r); len(b) == limit {
			break
		}
	}
	return string(b)
}
