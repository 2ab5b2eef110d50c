package overlay

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// The bounds of overlay.proto hold: messages just within them are accepted, messages just
// beyond are not.
func TestMessagesHaveBounds(t *testing.T) {
	id := make([]byte, 32)
	records := func(n, size int) (of [][]byte) {
		for range n {
			of = append(of, make([]byte, size))
		}
		return of
	}
	type body = overlaypb.Message
	for _, c := range []struct {
		what   string
		within bool
		m      *body
	}{
		{"nothing", false, &body{}},
		{"record alone", false, &body{Record: id}},
		{"record", true, &body{Record: make([]byte, MaxRecord), Body: &overlaypb.Message_Leave{}}},
		{"long record", false, &body{Record: make([]byte, MaxRecord+1), Body: &overlaypb.Message_Leave{}}},
		{"probe", true, probe(&overlaypb.Probe{Depth: maxDepth, Nonce: 1 << 63})},
		{"probe of a deep leaf", false, probe(&overlaypb.Probe{Depth: maxDepth + 1})},
		{"route", true, route(&overlaypb.Route{Key: id, Layer: 255, Hops: maxHops, Payload: make([]byte, MaxPayload)})},
		{"route of layer 0", false, route(&overlaypb.Route{Key: id})},
		{"route of layer 256", false, route(&overlaypb.Route{Key: id, Layer: 256})},
		{"route of many hops", false, route(&overlaypb.Route{Key: id, Layer: 1, Hops: maxHops + 1})},
		{"route without a key", false, route(&overlaypb.Route{Layer: 1})},
		{"route of a long key", false, route(&overlaypb.Route{Key: make([]byte, 33), Layer: 1})},
		{"route of much", false, route(&overlaypb.Route{Key: id, Layer: 1, Payload: make([]byte, MaxPayload+1)})},
		{"ack", true, ack(&overlaypb.Ack{})},
		{"receipt", true, ack(&overlaypb.Ack{Receipt: true, Root: id})},
		{"signed receipt", true, ack(&overlaypb.Ack{Receipt: true, Root: id, Record: make([]byte, MaxRecord), Signature: make([]byte, 64)})},
		{"receipt with a long record", false, ack(&overlaypb.Ack{Receipt: true, Root: id, Record: make([]byte, MaxRecord+1)})},
		{"receipt with half a signature", false, ack(&overlaypb.Ack{Receipt: true, Root: id, Signature: make([]byte, 32)})},
		{"receipt without a root", false, ack(&overlaypb.Ack{Receipt: true})},
		{"find", true, &body{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Key: id}}}},
		{"find without a key", false, &body{Body: &overlaypb.Message_Find{Find: &overlaypb.Find{}}}},
		{"nearby", true, &body{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{Records: records(maxRecords, 1), Depth: maxDepth}}}},
		{"nearby of many", false, &body{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{Records: records(maxRecords+1, 1)}}}},
		{"nearby of a deep leaf", false, &body{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{Depth: maxDepth + 1}}}},
		{"nearby of a long record", false, &body{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{Records: records(1, MaxRecord+1)}}}},
		{"leaf", true, &body{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{IdPrefixes: make([]uint64, maxLeafIDs), Records: records(maxRecords, 1)}}}},
		{"leaf of many", false, &body{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{IdPrefixes: make([]uint64, maxLeafIDs+1)}}}},
		{"leaf of many records", false, &body{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Records: records(maxRecords+1, 1)}}}},
		{"leaf too deep", false, &body{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Depth: maxDepth + 1}}}},
		{"row request", true, &body{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{Row: Digits - 1, Columns: 1<<16 - 1}}}},
		{"row request beyond the id", false, &body{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{Row: Digits}}}},
		{"row request of 17 columns", false, &body{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{Columns: 1 << 16}}}},
		{"row reply", true, &body{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{Row: Digits - 1, Count: 1<<32 - 1, Records: records(16, MaxRecord)}}}},
		{"row reply beyond the id", false, &body{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{Row: Digits}}}},
		{"row reply of 17 columns", false, &body{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{EmptyColumns: 1 << 16}}}},
		{"row reply of 17 records", false, &body{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{Records: records(17, 1)}}}},
		{"dead", true, &body{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{Id: id}}}},
		{"dead without an id", false, &body{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{}}}},
		{"leave", true, &body{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}}},
	} {
		if _, err := parse(wire.Encode(c.m)); (err == nil) != c.within || err != nil && !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestRoutesAndLeavesAreNotUrgent(t *testing.T) {
	record := make([]byte, MaxRecord)
	for _, c := range []struct {
		what   string
		urgent bool
		frame  []byte
	}{
		{"a probe", true, frame(probe(&overlaypb.Probe{Nonce: 1}))},
		{"a find with a record", true, frame(&overlaypb.Message{Record: record, Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Key: make([]byte, 32)}}})},
		{"a leave", false, frame(&overlaypb.Message{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}})},
		{"a route", false, frame(route(&overlaypb.Route{Key: make([]byte, 32), Layer: 1}))},
		{"a route with a record", false, frame(&overlaypb.Message{Record: record, Body: route(&overlaypb.Route{Layer: 1}).Body})},
		{"an ack", false, frame(ack(&overlaypb.Ack{Id: 1}))},
		{"another layer's", false, wire.AppendFrame(nil, wire.Owner, probe(&overlaypb.Probe{Nonce: 1}))},
		{"half a message", false, wire.AppendFrame(nil, wire.Overlay, probe(&overlaypb.Probe{Nonce: 1}))[:3]},
		{"nothing", false, nil},
	} {
		if got := Urgent(c.frame); got != c.urgent {
			t.Errorf("%s: urgent is %v", c.what, got)
		}
	}
}

// A message that passes on records fits into a frame, whatever the size of the records.
func TestRecordsOfOneMessageFitAFrame(t *testing.T) {
	for _, size := range []int{1, 200, MaxRecord} {
		var contacts []*Contact
		for range 1000 {
			contacts = append(contacts, &Contact{Raw: make([]byte, size)})
		}
		m := &overlaypb.Message{
			Record: make([]byte, MaxRecord),
			Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{
				Depth: maxDepth, Decided: 1 << 63, IdPrefixes: make([]uint64, maxLeafIDs), Records: rawRecords(contacts),
			}},
		}
		_, body, err := wire.ParseFrame(frame(m))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(body); err != nil {
			t.Errorf("records of %d bytes: %v", size, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	id := make([]byte, 32)
	for _, m := range []*overlaypb.Message{
		probe(&overlaypb.Probe{Nonce: 1, Reply: true, WantRecord: true, Depth: 3, Digest: 4, Decided: 5, Attach: true}),
		route(&overlaypb.Route{Id: 1, Try: 2, Hops: 3, Key: id, Layer: 2, Payload: []byte("payload")}),
		ack(&overlaypb.Ack{Id: 1, Try: 2, Receipt: true, Root: id, Hops: 3, Record: []byte("record"), Signature: make([]byte, 64)}),
		{Record: id, Body: &overlaypb.Message_Find{Find: &overlaypb.Find{Nonce: 1, Key: id, Rows: true}}},
		{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{Nonce: 1, Covers: true, Depth: 2, Records: [][]byte{id}, Decided: 3}}},
		{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Depth: 1, IdPrefixes: []uint64{2, 3}, Records: [][]byte{id}, WantReply: true}}},
		{Body: &overlaypb.Message_RowRequest{RowRequest: &overlaypb.RowRequest{Row: 1, Columns: 2}}},
		{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{Row: 1, Count: 2, EmptyColumns: 3, Records: [][]byte{id}}}},
		{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{Id: id, IssuedMs: 1}}},
		{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}},
	} {
		raw := wire.Encode(m)
		f.Add(raw)
		f.Add(append(raw, raw...))
		f.Add(raw[:len(raw)/2])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parse(raw)
		if err != nil {
			return
		}
		once := wire.Encode(m)
		again, err := parse(once)
		if err != nil || !proto.Equal(m, again) {
			t.Fatalf("%v came back as %v: %v", m, again, err)
		}
		if twice, err := proto.Marshal(again); err != nil || !bytes.Equal(once, twice) && len(once) != len(twice) {
			t.Fatalf("%x, then %x: %v", once, twice, err)
		}
	})
}
