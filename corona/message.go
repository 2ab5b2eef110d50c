package corona

import (
	"crypto/ed25519"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// maxStatus bounds a signed status, in bytes.
const maxStatus = 8 << 10

// parse decodes a message and checks all bounds, so that no other code has to.
func parse(body []byte) (*coronapb.Message, overlay.ID, error) {
	m := new(coronapb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, overlay.ID{}, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	var key []byte
	what := "body"
	switch b := m.Body.(type) {
	case *coronapb.Message_Change:
		if key, what = b.Change.Key, ""; len(b.Change.Observation) > overlay.MaxPayload {
			what = "change"
		}
	case *coronapb.Message_ItemRequest:
		key, what = b.ItemRequest.Key, breaksItemRequest(b.ItemRequest)
	case *coronapb.Message_ItemChunk:
		c := b.ItemChunk
		if key, what = c.Key, ""; c.Size > maxItemBytes || c.Offset > c.Size || len(c.Data) > chunkSize {
			what = "part"
		}
	case *coronapb.Message_Snapshot:
		s := b.Snapshot
		if key, what = s.Key, ""; breaksValidators(s.Valid) || len(s.Fingerprints)%fingerprintSize != 0 || len(s.Fingerprints)/fingerprintSize > maxSnapshotItems {
			what = "standing"
		}
	case *coronapb.Message_Status:
		if key, what = b.Status.Key, ""; len(b.Status.Status) > maxStatus || len(b.Status.Record) > overlay.MaxRecord {
			what = "report"
		}
	case *coronapb.Message_PushOrder:
		key, what = b.PushOrder.Key, breaksPushOrder(b.PushOrder)
	case *coronapb.Message_PushStatus:
		key, what = b.PushStatus.Key, breaksPushStatus(b.PushStatus)
	case *coronapb.Message_Hint:
		key, what = b.Hint.Key, ""
	case *coronapb.Message_Politeness:
		if what = breaksPoliteness(b.Politeness); what == "" {
			return m, overlay.ID{}, nil
		}
	}
	if what == "" && len(key) != len(overlay.ID{}) {
		what = "key"
	}
	if what != "" {
		return nil, overlay.ID{}, fmt.Errorf("%w: corona message: %s", env.ErrFrame, what)
	}
	return m, overlay.ID(key), nil
}

// parseObservation decodes a signed observation, and checks its bounds.
func parseObservation(payload []byte) (*coronapb.Observation, error) {
	m := new(coronapb.Observation)
	if err := proto.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("%w: reading: %w", env.ErrFrame, err)
	}
	if what := breaksObservation(m); what != "" {
		return nil, fmt.Errorf("%w: reading: %s", env.ErrFrame, what)
	}
	return m, nil
}

func breaksObservation(m *coronapb.Observation) string {
	switch f := m.Facts; {
	case len(m.Key) != len(overlay.ID{}):
		return "key"
	case len(m.Poller) > overlay.MaxRecord:
		return "poller"
	case len(m.Fingerprints)%fingerprintSize != 0 || len(m.Fingerprints)/fingerprintSize > feed.MaxItems:
		return "prints"
	case len(m.Delta) > maxInline:
		return "delta"
	case breaksValidators(m.Valid):
		return "validators"
	case f.GetSkipHours() >= 1<<24 || f.GetSkipDays() >= 1<<7 || len(f.GetLacks()) > maxDetail || len(f.GetMoved()) > maxMoved:
		return "facts"
	}
	return ""
}

func breaksItemRequest(m *coronapb.ItemRequest) string {
	if len(m.Items) > feed.MaxItems || m.Offset > maxItemBytes {
		return "want"
	}
	for i, at := range m.Items {
		if at >= feed.MaxItems || i > 0 && at <= m.Items[i-1] {
			return "want: items"
		}
	}
	return ""
}

func breaksValidators(v *coronapb.Validators) bool {
	return len(v.GetEtag()) > maxValidator || len(v.GetLastModified()) > maxValidator || len(v.GetFinalUrl()) > maxURL
}

// breaksStatus also rejects states with which no poll can end.
func breaksStatus(m *coronapb.PollStatus) string {
	if kind := m.GetState().GetKind(); kind <= coronapb.State_NEW || kind >= coronapb.State_IDLE {
		return "state: kind"
	}
	return breaksState(m.State)
}

// maxLevel is more than the number of bits in an id.
const maxLevel = 1 << 9

func breaksState(m *coronapb.State) string {
	if len(m.GetDetail()) > maxDetail || len(m.GetWhy()) > maxWhy || len(m.GetMoved()) > maxMoved || len(m.GetHub()) > maxMoved || len(m.GetHubFault()) > maxDetail ||
		max(m.GetSinceMs(), m.GetPolledMs(), m.GetNextMs()) > wire.MaxMillis || m.GetPollers() > maxPollers || m.GetBudget() > maxPollers || m.GetLevel() > maxLevel {
		return "state"
	}
	return ""
}

func (v validators) wire() *coronapb.Validators {
	if len(v.etag) > maxValidator || len(v.lastModified) > maxValidator || len(v.url) > maxURL ||
		!utf8.ValidString(v.etag) || !utf8.ValidString(v.lastModified) || !utf8.ValidString(v.url) {
		v = validators{} // the next poller fetches the whole document once
	}
	return &coronapb.Validators{Etag: v.etag, LastModified: v.lastModified, FinalUrl: v.url}
}

func validatorsFrom(m *coronapb.Validators) validators {
	return validators{m.GetEtag(), m.GetLastModified(), m.GetFinalUrl()}
}

// message encodes an observation without its items.
func (r *observation) message(key overlay.ID, of []fingerprint) *coronapb.Observation {
	h := r.f.Hints
	return &coronapb.Observation{
		Key: key[:], Valid: r.valid.wire(), Fingerprints: appendFingerprints(nil, of), HandedOver: r.handedOver, Partial: r.partial, Pushed: r.pushed,
		Facts: &coronapb.Facts{
			TtlMs: uint64(h.TTL.Milliseconds()), PeriodMs: uint64(h.Period.Milliseconds()), MaxAgeMs: uint64(r.maxAge.Milliseconds()),
			SkipHours: h.SkipHours, SkipDays: uint32(h.SkipDays),
			Lacks: truncate(r.f.Omitted, maxDetail), Moved: truncate(r.moved, maxMoved), Private: r.private, Size: uint64(r.size),
		},
	}
}

// observationFrom decodes an observation; its items have fingerprints only.
func observationFrom(m *coronapb.Observation, of []fingerprint) observation {
	t := m.Facts
	r := observation{
		valid: validatorsFrom(m.Valid), maxAge: span(t.GetMaxAgeMs()), moved: t.GetMoved(), private: t.GetPrivate(),
		size: int(min(t.GetSize(), feed.MaxDocument)), handedOver: m.HandedOver, partial: m.Partial, pushed: m.HandedOver && m.Pushed,
		f: &feed.Feed{
			Hints:   feed.Hints{TTL: span(t.GetTtlMs()), Period: span(t.GetPeriodMs()), SkipHours: t.GetSkipHours(), SkipDays: uint8(t.GetSkipDays())},
			Omitted: t.GetLacks(), Items: make([]feed.Item, len(of)),
		},
	}
	for i, p := range of {
		r.f.Items[i] = p.bare()
	}
	return r
}

// span converts milliseconds, bounded by maxRetryAfter, the longest time in use here.
func span(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(maxRetryAfter.Milliseconds()))) * time.Millisecond
}

// message encodes a snapshot, in answer to the observation with a nonce, or to none.
func (s *snapshot) message(key overlay.ID, nonce uint64, limitedFor time.Duration, failing int) *coronapb.Message {
	m := &coronapb.Snapshot{
		Key: key[:], Nonce: nonce, Valid: s.valid.wire(), Digest: s.digest, LimitedMs: uint64(max(limitedFor, 0).Milliseconds()),
		Failing: uint32(failing), Head: s.head,
	}
	if len(s.fingerprints) <= maxSnapshotItems {
		m.Fingerprints = appendFingerprints(nil, s.fingerprints)
	}
	return &coronapb.Message{Body: &coronapb.Message_Snapshot{Snapshot: m}}
}

// maxSnapshotItems bounds the fingerprints in a snapshot message. Of a longer document, pollers
// report every version that differs, and the sequencer requests what is new to it.
const maxSnapshotItems = 64

// breaksPoliteness returns the bound that a message breaks. Signed parts are decoded where their
// signatures are verified.
func breaksPoliteness(m *coronapb.Politeness) string {
	if len(m.GetDomain()) == 0 || len(m.GetDomain()) > maxDomain {
		return "domain"
	}
	isHash := func(b []byte) bool { return len(b) == len(owner.Hash{}) }
	switch b := m.Body.(type) {
	case *coronapb.Politeness_GrantRequest:
		if len(b.GrantRequest.Record) > overlay.MaxRecord || len(b.GrantRequest.Claims) > maxGrantRequest {
			return "ask"
		}
	case *coronapb.Politeness_GrantResponse:
		if len(b.GrantResponse.Grants) > maxGrants {
			return "granted"
		}
	case *coronapb.Politeness_Countersign:
		if !isHash(b.Countersign.Epoch) || len(b.Countersign.Statements) > maxGrants || len(b.Countersign.Readers) != len(b.Countersign.Statements) {
			return "countersign"
		}
	case *coronapb.Politeness_Countersigned:
		if len(b.Countersigned.Signatures) > maxGrants {
			return "countersigned"
		}
		for _, s := range b.Countersigned.Signatures {
			if len(s.GetKey()) != len(overlay.ID{}) || len(s.GetSignature()) != ed25519.SignatureSize {
				return "signature"
			}
		}
	case *coronapb.Politeness_ReadersRequest:
		if len(b.ReadersRequest.Key) != len(overlay.ID{}) || len(b.ReadersRequest.Record) > overlay.MaxRecord {
			return "readers"
		}
	case *coronapb.Politeness_ReadersResponse:
		if len(b.ReadersResponse.Record) > overlay.MaxRecord {
			return "readers"
		}
	case *coronapb.Politeness_LedgerRequest, *coronapb.Politeness_SiteHint:
	case *coronapb.Politeness_Ledger:
		if len(b.Ledger.Entries) > maxLedger {
			return "ledger"
		}
		for _, e := range b.Ledger.Entries {
			if len(e.GetKey()) != len(overlay.ID{}) || e.GetPollers() == 0 || e.GetPollers() > maxPollers ||
				e.GetIntervalMs() == 0 || e.GetIntervalMs() > uint64(maxStretch.Milliseconds()) || e.GetExpiryMs() > wire.MaxMillis || e.GetNumber() > e.GetExpiryMs() {
				return "entry"
			}
		}
	default:
		return "politeness"
	}
	return ""
}
