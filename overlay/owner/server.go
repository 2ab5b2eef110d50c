package owner

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// A server answers the pulls of other nodes.
type server struct {
	base
	storage *storage
}

// onPull answers with the entries after the one that the peer has.
func (v *server) onPull(from env.PeerID, m *ownerpb.Pull) {
	s := v.replicas.of(m.Key)
	reply := &ownerpb.Entries{Key: m.Key, Nonce: m.Nonce}
	answer := func() {
		v.send(from, &ownerpb.Message{Body: &ownerpb.Message_Entries{Entries: reply}})
	}
	if s == nil || s.epoch == nil {
		answer()
		return
	}
	have, _ := hashFrom(m.Have)
	at := s.log.find(have)
	reply.Restart = at < 0
	reply.Epoch, reply.Note, reply.Version = s.epoch.proto(), s.note, s.version
	page := s.log.chain[at+1:]
	size := 0
	for i, e := range page {
		size += len(e.Raw) + 16
		if e.Size <= maxInline {
			size += e.Size
		}
		if i > 0 && (size > pageBytes || i >= maxPage) || !v.storage.durable(e.Hash) {
			reply.More = v.storage.durable(e.Hash) // entries that are not durable are not announced
			page = page[:i]
			break
		}
	}
	page = slices.Clone(page)
	reply.Committed = at+1+len(page) < len(s.log.chain) || s.log.headCommitted()
	v.storage.Bodies(page, func(bodies [][]byte) {
		for i, e := range page {
			reply.Entries = append(reply.Entries, &ownerpb.LogEntry{Entry: e.Raw, Body: inline(bodies[i]), BodyLost: bodies[i] == nil})
		}
		answer()
	})
}

// onChunkRequest answers with a chunk of a body.
func (v *server) onChunkRequest(from env.PeerID, m *ownerpb.ChunkRequest) {
	s := v.replicas.of(m.Key)
	if s == nil {
		return
	}
	at := s.log.find(Hash(m.Hash))
	if at < 0 {
		v.sendChunk(from, m, nil)
		return
	}
	e := s.log.chain[at]
	v.storage.Body(e, func(body []byte) {
		if body != nil {
			v.storage.bodies.put(e.Hash, body) // the next chunk will be requested soon
		}
		start := min(int(m.Offset), len(body))
		v.sendChunk(from, m, body[start:min(start+maxInline, len(body))])
	})
}

func (v *server) sendChunk(to env.PeerID, m *ownerpb.ChunkRequest, b []byte) {
	v.send(to, &ownerpb.Message{Body: &ownerpb.Message_Chunk{Chunk: &ownerpb.Chunk{
		Key: m.Key, Hash: m.Hash, Offset: m.Offset, Bytes: b,
	}}})
}

// inline returns the body if it fits beside its entry, else nil.
func inline(body []byte) []byte {
	if len(body) > maxInline {
		return nil
	}
	return body
}
