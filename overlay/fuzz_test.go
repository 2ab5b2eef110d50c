package overlay_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// A kind makes up a message of one kind.
type kind func(in *intruder, s *story) *overlaypb.Message

var kinds = []kind{aProbe, aRoute, anAck, aFind, aNearby, aLeaf, aRowRequest, aRowReply, aDead, aLeave}

// fuzz sends messages of one kind to a member, and checks that the network survives them.
func fuzz(f *testing.F, k kind) {
	f.Add([]byte{})
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte("\x02\x05\x00\x01the quick brown fox jumps over the lazy dog and says so to everybody"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4<<10 {
			return
		}
		tell(t, b, k)
	})
}

// tell sends the messages of a story to a member, from a stranger or from a node that the
// member knows.
func tell(t *testing.T, b []byte, kinds ...kind) {
	s := story(b)
	in := intrude(wire.DefaultNetwork("sim"))
	for range 1 + s.choose(4) {
		if s.choose(3) == 1 { // the member gets to know the intruder
			in.send(&overlaypb.Message{Record: in.record, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
				Nonce: in.aNonce(&s), Reply: s.choose(2) == 1, WantRecord: s.choose(2) == 1,
			}}})
		}
		m := kinds[s.choose(len(kinds))](in, &s)
		if s.choose(4) != 3 {
			m.Record = in.record
		} else {
			m.Record = in.aRecord(&s)
		}
		for range pick(&s, 1, 2, 20) {
			in.send(m)
		}
	}
	in.endures(t)
}

var storiesFlag = flag.Int("stories", 15, "number of stories of each kind in a small world")

// Members survive messages of every kind with arbitrary contents, each kind alone and all
// together, and form the same network again when the intruder is gone.
func TestMembersSurviveAnyMessage(t *testing.T) {
	t.Parallel()
	for i := range *storiesFlag {
		b := make([]byte, 300)
		rng := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		rng.Read(b)
		for j, k := range append(slices.Clone(kinds), nil) {
			these := kinds
			if k != nil {
				these = []kind{k}
			}
			if tell(t, b, these...); t.Failed() {
				t.Fatalf("story %d of kind %d", i, j)
			}
		}
	}
}

func FuzzProbe(f *testing.F) { fuzz(f, aProbe) }

func aProbe(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce: in.aNonce(s), Reply: s.choose(2) == 1, WantRecord: s.choose(2) == 1, Attach: s.choose(2) == 1,
		Depth: uint32(s.number()), Digest: s.number(), Decided: in.aTime(s),
	}}}
}

func FuzzRoute(f *testing.F) { fuzz(f, aRoute) }

func aRoute(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Route{Route: &overlaypb.Route{
		Id: in.aNonce(s), Try: uint32(s.number()), Hops: uint32(s.number()), Key: in.aKey(s),
		Layer: uint32(s.number()), Payload: make([]byte, pick(s, 0, 1, 60<<10, 60<<10+1)),
	}}}
}

func FuzzAck(f *testing.F) { fuzz(f, anAck) }

func anAck(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: &overlaypb.Ack{
		Id: in.aNonce(s), Try: uint32(s.number()), Receipt: s.choose(2) == 1, Root: in.aKey(s), Hops: uint32(s.number()),
		Record: in.aRecord(s), Signature: make([]byte, pick(s, 0, 64, 63)),
	}}}
}

func FuzzFind(f *testing.F) { fuzz(f, aFind) }

func aFind(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{
		Nonce: in.aNonce(s), Key: in.aKey(s), Rows: s.choose(2) == 1,
	}}}
}

func FuzzNearby(f *testing.F) { fuzz(f, aNearby) }

func aNearby(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{
		Nonce: in.aNonce(s), Covers: s.choose(2) == 1, Depth: uint32(s.number()), Decided: in.aTime(s), Records: in.someRecords(s),
	}}}
}

func FuzzLeaf(f *testing.F) { fuzz(f, aLeaf) }

func aLeaf(in *intruder, s *story) *overlaypb.Message {
	leaf := &overlaypb.Leaf{Depth: uint32(s.number()), Decided: in.aTime(s), WantReply: s.choose(2) == 1, Records: in.someRecords(s)}
	for range pick(s, 1, 0, 5, 1024, 1025) {
		leaf.IdPrefixes = append(leaf.IdPrefixes, s.number())
	}
	return &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: leaf}}
}

func FuzzRowRequest(f *testing.F) { fuzz(f, aRowRequest) }

func aRowRequest(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{
		Row: uint32(s.number()), Columns: uint32(s.number()),
	}}}
}

func FuzzRowReply(f *testing.F) { fuzz(f, aRowReply) }

func aRowReply(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{
		Row: uint32(s.number()), Count: uint32(s.number()), EmptyColumns: uint32(s.number()), Records: in.someRecords(s),
	}}}
}

func FuzzDead(f *testing.F) { fuzz(f, aDead) }

func aDead(in *intruder, s *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{Id: in.aKey(s), IssuedMs: in.aTime(s)}}}
}

func FuzzLeave(f *testing.F) { fuzz(f, aLeave) }

func aLeave(*intruder, *story) *overlaypb.Message {
	return &overlaypb.Message{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}}
}
