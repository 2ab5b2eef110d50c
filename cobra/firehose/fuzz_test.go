package firehose

import (
	"crypto/ed25519"
	"testing"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/wire"
	"tidings/overlay/owner"
)

func exampleMessages() []*firehosepb.Message {
	hash := make([]byte, len(owner.Hash{}))
	return []*firehosepb.Message{
		{Body: &firehosepb.Message_Listen{Listen: &firehosepb.Listen{Record: []byte("record"), SinceMs: 1}}},
		{Body: &firehosepb.Message_ListenAck{ListenAck: &firehosepb.ListenAck{Records: [][]byte{[]byte("record")}}}},
		{Body: &firehosepb.Message_Direct{Direct: []byte("broadcast")}},
		{Body: &firehosepb.Message_Part{Part: &firehosepb.Part{Report: hash, Size: 2, Offset: 1, Bytes: []byte{1}}}},
		{Body: &firehosepb.Message_PartAck{PartAck: &firehosepb.PartAck{Report: hash, Received: 3, Idle: true}}},
		{Body: &firehosepb.Message_Request{Request: &firehosepb.Request{Key: hash, Entry: hash}}},
	}
}

// Every message that is accepted keeps the bounds that other code relies on.
func FuzzMessage(f *testing.F) {
	for _, m := range exampleMessages() {
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b, DefaultShards)
		if err != nil {
			return
		}
		if p := m.GetPart(); p != nil && (int(p.Offset)+len(p.Bytes) > int(p.Size) || len(p.Report) != 32 || int(p.Shard) >= DefaultShards) {
			t.Errorf("%v was accepted", p)
		}
		if again, err := parse(wire.Encode(m), DefaultShards); err != nil || !proto.Equal(again, m) {
			t.Errorf("%v is read as %v, %v", m, again, err)
		}
	})
}

// Bytes that are not a report, dispatch or broadcast are refused.
func FuzzReport(f *testing.F) {
	f.Add(wire.Encode(&firehosepb.Report{Dispatch: wire.Encode(&firehosepb.Dispatch{Url: "https://example.org/feed", Title: "Feed", Entry: []byte("entry"), Body: []byte("body")}), Epoch: []byte("epoch")}))
	f.Add(wire.Encode(&firehosepb.Broadcast{Shard: 1, TimeMs: 2, Digest: &firehosepb.Digest{Entries: []*firehosepb.EntryRef{{Key: make([]byte, 32), Entry: make([]byte, 32)}}, Sums: []*firehosepb.Sum{{Minute: 1}}}}))
	verify := wire.NewVerifier(wire.Hash{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, d, err := openReport(verify, "lab", b); err == nil {
			t.Errorf("unsigned %v was accepted", d)
		}
		m, err := openBroadcast(b, 1)
		if err == nil && m.Digest == nil && m.Dispatch == nil && m.List == nil {
			t.Errorf("%v was accepted", m)
		}
	})
}

// The messages that nodes make are within the bounds, and messages beyond them are refused.
func TestMessagesAreRead(t *testing.T) {
	for _, m := range exampleMessages() {
		if again, err := parse(wire.Encode(m), DefaultShards); err != nil || !proto.Equal(again, m) {
			t.Errorf("%v is read as %v, %v", m, again, err)
		}
	}
	for what, m := range map[string]*firehosepb.Message{
		"shard":  {Body: &firehosepb.Message_Listen{Listen: &firehosepb.Listen{Shard: DefaultShards}}},
		"part":   {Body: &firehosepb.Message_Part{Part: &firehosepb.Part{Report: make([]byte, 32), Size: 1, Offset: 1, Bytes: []byte{1}}}},
		"lack":   {Body: &firehosepb.Message_Request{Request: &firehosepb.Request{Key: []byte("short")}}},
		"meet":   {Body: &firehosepb.Message_ListenAck{ListenAck: &firehosepb.ListenAck{Records: make([][]byte, maxRecords+1)}}},
		"nobody": {},
	} {
		if _, err := parse(wire.Encode(m), DefaultShards); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// A dispatch is refused if it has no valid entry, or fields beyond the bounds.
func TestInvalidDispatchesAreRefused(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	network := wire.Hash{1}
	raw := wire.NewSigner(key, network).Sign(wire.DomainEntry, []byte("no statement")).Raw
	for what, d := range map[string]*firehosepb.Dispatch{
		"no entry":          {Url: "https://example.org/feed"},
		"invalid statement": {Url: "https://example.org/feed", Entry: raw},
		"a URL of 3 KiB":    {Url: string(make([]byte, 3<<10)), Entry: raw},
		"a title of 2 KiB":  {Url: "https://example.org/feed", Title: string(make([]byte, 2<<10)), Entry: raw},
		"another network":   {Url: "https://example.org/feed", Entry: wire.NewSigner(key, wire.Hash{2}).Sign(wire.DomainEntry, nil).Raw},
	} {
		if _, err := openDispatch(wire.NewVerifier(network), "lab", wire.Encode(d)); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
