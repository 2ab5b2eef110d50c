package store

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// bbolt checks only its meta pages. Therefore every value carries a checksum of itself and its key.
// The checksum protects against accidents and not against an attacker who can write the file.
//
//	kind (1) | checksum (8) | payload
//
// The payload of a record is its value, or the place of its body:
//
//	segment (4) | offset (4) | length (4) | checksum of the body (8)
//
// For the payload of the head see [head].
const (
	kindInline = 1 // a record with its value
	kindBody   = 2 // a record whose value is a body
	kindHead   = 3 // the head

	overhead  = 1 + 8
	placeSize = 4 + 4 + 4 + 8
)

// encode returns the stored form of a payload under key.
func encode(kind byte, key, payload []byte) []byte {
	b := make([]byte, overhead, overhead+len(payload))
	b[0] = kind
	binary.BigEndian.PutUint64(b[1:], checksum(kind, key, payload))
	return append(b, payload...)
}

// decode returns the kind and payload of a stored value, unless it is damaged. The payload is a
// part of encoded.
func decode(key, encoded []byte) (kind byte, payload []byte, ok bool) {
	if len(encoded) < overhead {
		return 0, nil, false
	}
	kind, payload = encoded[0], encoded[overhead:]
	return kind, payload, checksum(kind, key, payload) == checksumOf(encoded)
}

// checksumOf returns the checksum that encoded carries, which may be wrong.
func checksumOf(encoded []byte) uint64 {
	if len(encoded) < overhead {
		return 0
	}
	return binary.BigEndian.Uint64(encoded[1:])
}

func checksum(kind byte, key, payload []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	var start [5]byte // separates key and payload
	start[0] = kind
	binary.BigEndian.PutUint32(start[1:], uint32(len(key)))
	_, _ = d.Write(start[:])
	_, _ = d.Write(key)
	_, _ = d.Write(payload)
	return d.Sum64()
}

// A place is the location of a body.
type place struct {
	segment, offset, length uint32
	sum                     uint64
}

func (p place) end() int64 { return int64(p.offset) + int64(p.length) }

// encode returns the stored form of a place under the key of its body.
func (p place) encode(key []byte) []byte {
	b := make([]byte, 0, placeSize)
	b = binary.BigEndian.AppendUint32(b, p.segment)
	b = binary.BigEndian.AppendUint32(b, p.offset)
	b = binary.BigEndian.AppendUint32(b, p.length)
	b = binary.BigEndian.AppendUint64(b, p.sum)
	return encode(kindBody, key, b)
}

// parsePlace reads the payload of a record whose value is in a segment.
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

// A record is the decoded value of a key.
type record struct {
	value    []byte
	place    place // of the value, if external
	external bool
}

// parseRecord decodes the stored value of key, unless it is damaged. The value is a part of
// encoded.
func parseRecord(key, encoded []byte) (r record, ok bool) {
	kind, payload, ok := decode(key, encoded)
	switch {
	case !ok:
		return r, false
	case kind == kindInline:
		return record{value: payload}, true
	case kind == kindBody:
		r.external = true
		r.place, ok = parsePlace(payload)
		return r, ok
	}
	return r, false
}

// A head summarises all records. It is written in every transaction, and reveals a file that lost
// records or that has an outdated page.
type head struct {
	version byte   // 0: the present one
	number  uint64 // transactions and frames of the log so far
	records uint64
	sum     uint64 // sum of the records' checksums, modulo 2⁶⁴
	tx      uint64 // number of bbolt's transaction; unknown in version 1
	logged  bool   // there is a log, which may have later changes; false in version 1
	lost    string // why promises may be lost; see Disk.Lost
}

const headVersion = 2

// add counts a record.
func (h *head) add(encoded []byte) {
	h.records++
	h.sum += checksumOf(encoded)
}

// drop is the reverse of add.
func (h *head) drop(encoded []byte) {
	h.records--
	h.sum -= checksumOf(encoded)
}

func (h *head) encode() []byte {
	b := []byte{headVersion}
	b = binary.BigEndian.AppendUint64(b, h.number)
	b = binary.BigEndian.AppendUint64(b, h.records)
	b = binary.BigEndian.AppendUint64(b, h.sum)
	b = binary.BigEndian.AppendUint64(b, h.tx)
	logged := byte(0)
	if h.logged {
		logged = 1
	}
	return encode(kindHead, headKey, append(append(b, logged), h.lost...))
}

// isNewer reports whether a head was written by a later version of the program.
func isNewer(encoded []byte) bool {
	kind, b, ok := decode(headKey, encoded)
	return ok && kind == kindHead && len(b) > 0 && b[0] > headVersion
}

func parseHead(encoded []byte) (h head, ok bool) {
	kind, b, ok := decode(headKey, encoded)
	if !ok || kind != kindHead || len(b) < 1+3*8 {
		return h, false
	}
	h.version = b[0]
	h.number = binary.BigEndian.Uint64(b[1:])
	h.records = binary.BigEndian.Uint64(b[9:])
	h.sum = binary.BigEndian.Uint64(b[17:])
	b = b[25:]
	switch {
	case h.version == 1:
	case h.version == headVersion && len(b) >= 8+1 && b[8] <= 1:
		h.tx, h.logged = binary.BigEndian.Uint64(b), b[8] == 1
		b = b[9:]
	default:
		return h, false
	}
	h.lost = string(b)
	return h, true
}
