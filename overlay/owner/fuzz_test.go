package owner

import (
	"bytes"
	"crypto/ed25519"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

var (
	network = wire.HashOf(wire.DefaultNetwork("fuzz").Descriptor())
	verify  = wire.NewVerifier(network)
	began   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func signer(n byte) *wire.Signer {
	return wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{n}, ed25519.SeedSize)), network)
}

// someEntry and someEpoch return valid values.
func someEntry() *Entry {
	e := &Entry{Key: overlay.Key("fuzz", "http://a.example/"), At: Position{1, 2, 3}, Time: began, Body: HashOf([]byte("body")), Size: 4, Items: 1, Set: HashOf([]byte("set"))}
	e.sign(signer(1))
	return e
}

func someEpoch(owners int) *Epoch {
	e := &Epoch{Key: overlay.Key("fuzz", "http://a.example/"), URL: "http://a.example/", Branch: 1, Number: 2, Time: began}
	for i := range owners {
		e.Owners = append(e.Owners, signer(byte(i)).PeerID())
	}
	e.Sequencer = e.Owners[0]
	e.setHash()
	for i := range owners {
		e.addSignature(verify, signer(byte(i)).Sign(wire.DomainEpoch, e.Hash[:]).Raw)
	}
	return e
}

// FuzzMessage parses any bytes as a message: an accepted message is within bounds and survives encoding.
func FuzzMessage(f *testing.F) {
	key, e := someEntry().Key, someEpoch(3).proto()
	f.Add([]byte{})
	for _, m := range []*ownerpb.Message{
		{Body: &ownerpb.Message_RequestOwners{RequestOwners: &ownerpb.RequestOwners{Url: "http://a.example/"}}},
		{Body: &ownerpb.Message_FindOwners{FindOwners: &ownerpb.FindOwners{Key: key[:], Record: []byte("record"), Url: "http://a.example/", Hops: 4}}},
		{Body: &ownerpb.Message_OwnersFound{OwnersFound: &ownerpb.OwnersFound{Key: key[:], Records: [][]byte{[]byte("record")}, Epoch: e}}},
		{Body: &ownerpb.Message_Promise{Promise: &ownerpb.Promise{Key: key[:], Epoch: e, Undecided: []*ownerpb.Epoch{e}}}},
		{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: someEntry().Raw(), Body: []byte("body")}}},
		{Body: &ownerpb.Message_LogList{LogList: &ownerpb.LogList{States: []*ownerpb.LogState{{Key: key[:]}}, Last: true}}},
		{Body: &ownerpb.Message_Entries{Entries: &ownerpb.Entries{Key: key[:], Epoch: e, Entries: []*ownerpb.LogEntry{{Entry: someEntry().Raw()}}}}},
	} {
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		again, err := parse(wire.Encode(m))
		if err != nil || !proto.Equal(m, again) {
			t.Errorf("%v became %v, %v", m, again, err)
		}
	})
}

// FuzzEntryStatement signs any bytes as an entry: an accepted entry is within bounds and survives encoding.
func FuzzEntryStatement(f *testing.F) {
	f.Add([]byte{})
	opened, err := verify.Open(wire.DomainEntry, someEntry().Raw())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(opened.Payload)
	f.Add(append(bytes.Clone(opened.Payload), 0xf8, 1, 1)) // a field that this release does not know
	f.Fuzz(func(t *testing.T, payload []byte) {
		by := signer(7)
		signed := by.Sign(wire.DomainEntry, payload).Raw
		e, err := OpenEntry(verify, signed)
		if err != nil {
			return
		}
		if !bytes.Equal(e.Raw(), signed) {
			t.Errorf("%x is kept as %x", signed, e.Raw())
		}
		if e.At.Seq == 0 || e.At.Epoch == 0 || e.Size < 0 || e.Size > MaxBody || e.Items > e.Size || e.Signer != by.PeerID() {
			t.Errorf("an entry beyond bounds: %+v", e)
		}
		same := *e
		same.sign(by)
		again, err := OpenEntry(verify, same.Raw())
		if err != nil || !reflect.DeepEqual(again, &same) || again.Time != e.Time || again.Prev != e.Prev {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

// For an entry in this release's encoding, a node keeps only the signature beside the fields. Another encoding stays as it is.
func TestAnEntryIsNotKeptTwice(t *testing.T) {
	e := someEntry()
	opened, err := OpenEntry(verify, e.Raw())
	if err != nil || len(opened.proof) != ed25519.SignatureSize || !bytes.Equal(opened.Raw(), e.Raw()) {
		t.Errorf("%d bytes are kept of an entry of %d: %v", len(opened.proof), len(e.Raw()), err)
	}
	later := signer(7).Sign(wire.DomainEntry, append(e.statement(), 0xf8, 1, 1)).Raw
	if opened, err = OpenEntry(verify, later); err != nil || !bytes.Equal(opened.Raw(), later) || opened.Hash == e.Hash {
		t.Errorf("an entry with a further field became %x: %v", opened.Raw(), err)
	}
}

// The statement of an epoch and its signatures are made again from the fields, unless they were encoded otherwise.
func TestAnEpochIsNotKeptTwice(t *testing.T) {
	e := someEpoch(3)
	opened, err := openEpoch(verify, e.proto())
	if err != nil || opened.foreign != nil || !bytes.Equal(opened.Bytes(), e.Bytes()) {
		t.Errorf("%d bytes are kept beside the fields: %v", len(opened.foreign), err)
	}
	e.foreign = padded(e.statement(), 9)
	e.setHash()
	e.signers, e.signatures = nil, nil
	e.addSignature(verify, padded(signer(1).Sign(wire.DomainEpoch, e.Hash[:]).Raw, 9))
	if opened, err = openEpoch(verify, e.proto()); err != nil || !bytes.Equal(opened.statement(), e.foreign) || len(opened.signers) != 1 {
		t.Errorf("an epoch with a further field became %x of %d signers: %v", opened.statement(), len(opened.signers), err)
	}
}

// FuzzEntry opens any bytes as an entry from a stranger.
func FuzzEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add(someEntry().Raw())
	f.Add(someEpoch(1).envelopes()[0])
	f.Fuzz(func(t *testing.T, raw []byte) {
		if e, err := OpenEntry(verify, raw); err == nil && !bytes.Equal(e.Raw(), raw) {
			t.Errorf("%x is kept as %x", raw, e.Raw())
		}
	})
}

// FuzzEpochStatement decodes any bytes as an epoch statement: an accepted one is within bounds and survives encoding.
func FuzzEpochStatement(f *testing.F) {
	f.Add([]byte{})
	f.Add(someEpoch(1).statement())
	later := someEpoch(5)
	later.After, later.AfterHash, later.Prior, later.Concurrent = Position{1, 2, 3}, HashOf(nil), HashOf(nil), []Hash{HashOf(nil)}
	later.setHash()
	f.Add(later.statement())
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := openStatement(b)
		if err != nil {
			return
		}
		if len(e.Owners) > maxOwners || !e.owns(e.Sequencer) || e.Number == 0 || len(e.URL) > maxURL || len(e.Concurrent) > maxConcurrent {
			t.Errorf("an epoch beyond bounds: %+v", e)
		}
		if !bytes.Equal(e.statement(), b) {
			t.Errorf("%x is kept as %x", b, e.statement())
		}
		same := *e
		same.foreign = nil
		same.setHash()
		again, err := openStatement(same.statement())
		if err != nil || !reflect.DeepEqual(again, &same) {
			t.Errorf("%+v became %+v, %v", &same, again, err)
		}
	})
}

// FuzzEpoch decodes any bytes as an epoch: every counted signer has signed it, once.
func FuzzEpoch(f *testing.F) {
	f.Add([]byte{})
	f.Add(someEpoch(1).Bytes())
	f.Add(someEpoch(5).Bytes())
	o := &epochs{verify: verify, base: base{replicas: &replicas{}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := o.read(b)
		if err != nil {
			return
		}
		if len(e.signers) > maxSignatures || len(e.signers) != len(e.signatures) {
			t.Errorf("%d signers, %d signatures", len(e.signers), len(e.signatures))
		}
		for i, id := range e.signers {
			signed, err := verify.Open(wire.DomainEpoch, e.envelopes()[i])
			if err != nil || wire.PeerIDOf(signed.Key) != id || Hash(signed.Payload) != e.Hash || slices.Contains(e.signers[:i], id) {
				t.Errorf("signer %d has not signed", i)
			}
		}
		if again, err := o.read(e.Bytes()); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

// FuzzReplica decodes any bytes as a stored replica, which a broken disk may have written.
func FuzzReplica(f *testing.F) {
	key := someEntry().Key
	e := someEpoch(3)
	s := &replica{key: key, url: e.URL, follow: true, ballot: ballot{epoch: e, undecided: []*Epoch{someEpoch(2)}}, note: []byte("note"), version: 7}
	s.promised.set(vote{branch: 1, number: 4, candidate: e.Sequencer})
	s.signed.set(vote{1, 4, true, e.Sequencer, e.Hash})
	f.Add([]byte{})
	f.Add(s.storeOp().Value)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := openReplica(verify, replicaKey(key), b)
		if err != nil {
			return
		}
		again, _, err := openReplica(verify, replicaKey(key), s.storeOp().Value)
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

// padded adds an unknown field to an encoded message, which nodes forward unchanged.
func padded(raw []byte, n int) []byte {
	return append(slices.Clone(raw), slices.Concat([]byte{0xfa, 0x3e, byte(n&0x7f | 0x80), byte(n >> 7)}, make([]byte, n))...) // field 1007
}

// Whatever other nodes have signed, it fits into the frames that pass it on.
func TestTheLargestMessagesFitIntoAFrame(t *testing.T) {
	e := &Epoch{
		Key: overlay.ID{1}, URL: "http://a.example/" + strings.Repeat("x", maxURL-17), Branch: ^uint64(0), Number: maxNumber, Time: began,
		After: Position{^uint64(0), ^uint32(0), ^uint64(0)}, AfterHash: HashOf(nil), Prior: HashOf(nil),
	}
	for i := range maxOwners {
		e.Owners = append(e.Owners, signer(byte(i)).PeerID())
	}
	for range maxConcurrent {
		e.Concurrent = append(e.Concurrent, HashOf(nil))
	}
	e.Sequencer = e.Owners[0]
	honest := e.statement()
	if len(honest) > maxStatement {
		t.Fatalf("an honest statement of %d bytes is refused", len(honest))
	}
	e.foreign = padded(honest, maxStatement-len(honest)-4)
	e.setHash()
	for i := range maxSignatures {
		raw := signer(byte(i)).Sign(wire.DomainEpoch, e.Hash[:]).Raw
		if len(raw) > maxSignature {
			t.Fatalf("an honest signature of %d bytes is refused", len(raw))
		}
		if _, ok := e.addSignature(verify, padded(raw, maxSignature-len(raw)-4)); !ok {
			t.Fatal("a signature was refused")
		}
	}
	if _, err := (&epochs{verify: verify, base: base{replicas: &replicas{}}}).read(e.Bytes()); err != nil {
		t.Fatal(err)
	}
	key, hash := e.Key[:], HashOf(nil)
	kept := &ownerpb.LogEntry{Entry: make([]byte, maxEnvelope), Body: make([]byte, maxInline)}
	page := []*ownerpb.LogEntry{}
	for range maxPage {
		page = append(page, &ownerpb.LogEntry{Entry: make([]byte, pageBytes/maxPage-16), BodyLost: true})
	}
	open := []*ownerpb.Epoch{}
	for range maxConcurrent + 1 { // more do not stay undecided (stillUndecided)
		open = append(open, e.proto())
	}
	states := []*ownerpb.LogState{}
	for range maxListed {
		states = append(states, &ownerpb.LogState{Key: key, Branch: 1, Number: ^uint32(0), Head: 1, Version: 1})
	}
	note := make([]byte, MaxNote)
	for what, m := range map[string]*ownerpb.Message{
		"one entry":   {Body: &ownerpb.Message_Entries{Entries: &ownerpb.Entries{Key: key, Nonce: 1, Restart: true, More: true, Epoch: e.proto(), Entries: []*ownerpb.LogEntry{kept}, Note: note, Version: 1}}},
		"a page":      {Body: &ownerpb.Message_Entries{Entries: &ownerpb.Entries{Key: key, Nonce: 1, Restart: true, More: true, Epoch: e.proto(), Entries: page, Note: note, Version: 1}}},
		"a replicate": {Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: kept.Entry, Body: kept.Body}}},
		"a promise":   {Body: &ownerpb.Message_Promise{Promise: &ownerpb.Promise{Key: key, Branch: 1, Number: ^uint32(0), Refused: 1, Epoch: e.proto(), Undecided: open, Head: kept.Entry}}},
		"a commit":    {Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{Epoch: e.proto(), Note: note, Version: 1, MergedHead: hash[:]}}},
		"a list":      {Body: &ownerpb.Message_LogList{LogList: &ownerpb.LogList{States: states, Last: true, Nonce: 1}}},
		"a chunk":     {Body: &ownerpb.Message_Chunk{Chunk: &ownerpb.Chunk{Key: key, Hash: hash[:], Offset: MaxBody, Bytes: kept.Body}}},
		"a merge":     {Body: &ownerpb.Message_Merge{Merge: &ownerpb.Merge{Epoch: e.proto(), Head: kept.Entry}}},
	} {
		if n := proto.Size(m); n > wire.MaxMessage {
			t.Errorf("%s of %d bytes", what, n)
		}
		if _, err := parse(wire.Encode(m)); err != nil {
			t.Errorf("%s is refused: %v", what, err)
		}
	}
}
