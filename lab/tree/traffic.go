package tree

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/scribe/scribepb"
)

// A Count is a number of messages and their bytes.
type Count struct {
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
}

func (c Count) plus(d Count) Count  { return Count{c.Messages + d.Messages, c.Bytes + d.Bytes} }
func (c Count) minus(d Count) Count { return Count{c.Messages - d.Messages, c.Bytes - d.Bytes} }

// A traffic is what a host has sent.
type traffic struct {
	overlay  Count // control messages
	carrying Count // messages that the overlay routes for trees, and their acknowledgements
	scribe   [scribeKinds]Count
	lost     int // frames for which libp2p had no buffer or no path
}

// scribeKinds is one more than the highest field number of scribe's messages.
const scribeKinds = 16

// Kinds of scribe's messages that have figures of their own.
var (
	downKind = kindOf("multicast")
	gotKind  = kindOf("ack")
)

func kindOf(name protoreflect.Name) int {
	return int((&scribepb.Message{}).ProtoReflect().Descriptor().Fields().ByName(name).Number())
}

// nameOf returns the name of a kind of message.
func nameOf(kind int) string {
	if f := (&scribepb.Message{}).ProtoReflect().Descriptor().Fields().ByNumber(protowire.Number(kind)); f != nil {
		return string(f.Name())
	}
	return "unknown"
}

// since returns what was sent after an earlier snapshot.
func (t traffic) since(earlier traffic) traffic {
	t.overlay, t.carrying, t.lost = t.overlay.minus(earlier.overlay), t.carrying.minus(earlier.carrying), t.lost-earlier.lost
	for i := range t.scribe {
		t.scribe[i] = t.scribe[i].minus(earlier.scribe[i])
	}
	return t
}

// plus adds what another host has sent.
func (t traffic) plus(u traffic) traffic {
	t.overlay, t.carrying, t.lost = t.overlay.plus(u.overlay), t.carrying.plus(u.carrying), t.lost+u.lost
	for i := range t.scribe {
		t.scribe[i] = t.scribe[i].plus(u.scribe[i])
	}
	return t
}

// trees returns everything that scribe has sent.
func (t traffic) trees() (sum Count) {
	for _, c := range t.scribe {
		sum = sum.plus(c)
	}
	return sum
}

// A counted network is an env.Network that counts scribe's messages by kind.
type counted struct {
	env.Network
	scribe [scribeKinds]Count
}

// Send implements env.Network.
func (c *counted) Send(to env.Peer, class env.Class, frame []byte) {
	if layer, body, err := wire.ParseFrame(frame); err == nil && layer == wire.Scribe {
		if kind, _, n := protowire.ConsumeTag(body); n > 0 && kind < scribeKinds {
			c.scribe[kind] = c.scribe[kind].plus(Count{1, len(frame)})
		}
	}
	c.Network.Send(to, class, frame)
}
