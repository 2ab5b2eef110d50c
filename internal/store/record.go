package store

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// bbolt checks its meta pages alone, so every value carries a checksum over
// itself and its key. It is for accidents: who can write the file can make one.
//
//	kind (1) | checksum (8) | payload
//
// The payload of a record is its value, or the place of its body:
//
//	segment (4) | offset (4) | length (4) | checksum of the body (8)
//
// and that of the head see [head].
const (
	inline  = 1 // a record with its value
	outside = 2 // a record whose value is a body
	heading = 3 // the head

	overhead  = 1 + 8
	placeSize = 4 + 4 + 4 + 8
)

// seal returns what the file keeps under key.
func seal(kind byte, key, payload []byte) []byte {
	b := make([]byte, overhead, overhead+len(payload))
	b[0] = kind
	binary.BigEndian.PutUint64(b[1:], checksum(kind, key, payload))
	return append(b, payload...)
}

// unseal returns what was sealed, unless it is damaged. The payload is a part of
// sealed.
func unseal(key, sealed []byte) (kind byte, payload []byte, ok bool) {
	if len(sealed) < overhead {
		return 0, nil, false
	}
	kind, payload = sealed[0], sealed[overhead:]
	return kind, payload, checksum(kind, key, payload) == sumOf(sealed)
}

// sumOf is the checksum that sealed carries; it may be wrong.
func sumOf(sealed []byte) uint64 {
	if len(sealed) < overhead {
		return 0
	}
	return binary.BigEndian.Uint64(sealed[1:])
}

func checksum(kind byte, key, payload []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	var start [5]byte // tells where the key ends
	start[0] = kind
	binary.BigEndian.PutUint32(start[1:], uint32(len(key)))
	_, _ = d.Write(start[:])
	_, _ = d.Write(key)
	_, _ = d.Write(payload)
	return d.Sum64()
}

// A place is where a body lies.
type place struct {
	segment, offset, length uint32
	sum                     uint64
}

func (p place) end() int64 { return int64(p.offset) + int64(p.length) }

// seal returns what the file keeps under the key of a body.
func (p place) seal(key []byte) []byte {
	b := make([]byte, 0, placeSize)
	b = binary.BigEndian.AppendUint32(b, p.segment)
	b = binary.BigEndian.AppendUint32(b, p.offset)
	b = binary.BigEndian.AppendUint32(b, p.length)
	b = binary.BigEndian.AppendUint64(b, p.sum)
	return seal(outside, key, b)
}

// parsePlace reads the payload of a record whose value lies outside.
func parsePlace(payload []byte) (p place, ok bool) {
	if len(payload) != placeSize {
		return p, false
	}
	p.segment = binary.BigEndian.Uint32(payload)
	p.offset = binary.BigEndian.Uint32(payload[4:])
	p.length = binary.BigEndian.Uint32(payload[8:])
	p.sum = binary.BigEndian.Uint64(payload[12:])
	return p, true
}

// A record is what the file says about a key.
type record struct {
	value   []byte
	place   place // of the value, if it lies outside
	outside bool
}

// parseRecord reads what the file keeps under key, unless it is damaged. The
// value is a part of sealed.
func parseRecord(key, sealed []byte) (r record, ok bool) {
	kind, payload, ok := unseal(key, sealed)
	switch {
	case !ok:
		return r, false
	case kind == inline:
		return record{value: payload}, true
	case kind == outside:
		r.outside = true
		r.place, ok = parsePlace(payload)
		return r, ok
	}
	return r, false
}

// A head knows what all records come to. It is written in every transaction, and
// tells a file that lost records, or a page of last week, from a whole one.
type head struct {
	number  uint64 // of transactions
	records uint64
	sum     uint64 // of the records' checksums, modulo 2⁶⁴
	lost    string // why promises may be forgotten; see Disk.Lost
}

const headVersion = 1

// add counts what the file keeps of a record.
func (h *head) add(sealed []byte) {
	h.records++
	h.sum += sumOf(sealed)
}

// drop is the reverse of add.
func (h *head) drop(sealed []byte) {
	h.records--
	h.sum -= sumOf(sealed)
}

func (h *head) seal() []byte {
	b := []byte{headVersion}
	b = binary.BigEndian.AppendUint64(b, h.number)
	b = binary.BigEndian.AppendUint64(b, h.records)
	b = binary.BigEndian.AppendUint64(b, h.sum)
	return seal(heading, headKey, append(b, h.lost...))
}

// isNewer reports whether a head was written by a later version of the program.
func isNewer(sealed []byte) bool {
	kind, b, ok := unseal(headKey, sealed)
	return ok && kind == heading && len(b) > 0 && b[0] > headVersion
}

func parseHead(sealed []byte) (h head, ok bool) {
	kind, b, ok := unseal(headKey, sealed)
	if !ok || kind != heading || len(b) < 1+3*8 || b[0] != headVersion {
		return h, false
	}
	h.number = binary.BigEndian.Uint64(b[1:])
	h.records = binary.BigEndian.Uint64(b[9:])
	h.sum = binary.BigEndian.Uint64(b[17:])
	h.lost = string(b[25:])
	return h, true
}
