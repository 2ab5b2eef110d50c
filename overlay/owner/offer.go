package owner

// Offer takes an entry from the tree, with its body, and with its epoch if the sender thought it might be new. It
// returns the entry and what became of it. refused is called later if the entry was added but the disk refused it:
// the entry is a gap then.
func (l *learner) Offer(raw, body, epoch []byte, refused func(*Entry)) (*Entry, OfferResult) {
	e, err := OpenEntry(l.epochs.verify, raw)
	if err != nil {
		return nil, Refused
	}
	s := l.replicas.byKey[e.Key]
	if s == nil || !s.follow && !s.owned {
		return e, Refused
	}
	// The owners store the entry in its own epoch, or in a later one that continues from it. If that epoch started
	// another branch, the owners of the former may never have committed the entry. Invalid epochs are ignored.
	in, by := e.At.Branch, e.Signer
	if len(epoch) > 0 {
		n, err := l.epochs.read(epoch)
		if err == nil && n.Key == s.key && (s.epoch == nil || s.epoch.Branch == e.At.Branch && s.epoch.Number < e.At.Epoch) && l.locator.acceptable(s, n) {
			l.commit(s, n, n.Sequencer)
		}
		if err == nil && n.Key == s.key && n.AfterHash == e.Hash && n.certifiedBy(n.Owners) && (l.locator.needsLookup(s, n) || l.locator.ownersPlausible(s, n)) {
			in, by = n.Branch, n.Sequencer
		}
	}
	if s.log.has(e) && (s.epoch == nil || s.epoch.Branch == in || s.log.visible.has(e)) {
		l.storage.markCommitted(s, e.Hash)
		return e, Known
	}
	switch {
	case s.epoch != nil && in > s.epoch.Branch && by != s.epoch.Sequencer && !l.liveness.silent(s):
		return e, OtherBranch
	case s.epoch == nil || in != s.epoch.Branch || e.At.Branch != in || e.At.Epoch > s.epoch.Number:
		return e, Gap
	case e.At.Epoch < s.epoch.Number && e.Hash != s.epoch.AfterHash:
		return e, Gap
	case e.At.Epoch == s.epoch.Number && e.Signer != s.epoch.Sequencer:
		l.stats.Untrusted++
		return e, Refused
	case e.Prev != s.log.headHash() || len(body) == 0 && e.Size > 0:
		return e, Gap
	case HashOf(body) != e.Body:
		return e, Refused
	}
	l.liveness.heard(s)
	l.storage.append(s, []*Entry{e}, [][]byte{body}, false, func(ok bool) {
		if !ok {
			refused(e)
		}
	})
	l.storage.markCommitted(s, e.Hash)
	return e, Added
}

// OfferResult tells what became of an entry from the tree.
type OfferResult uint8

const (
	Added       OfferResult = iota // the entry was appended to the log
	Known                          // the log had the entry before
	Gap                            // an earlier entry, the epoch or the body is missing: call Pull
	OtherBranch                    // of a branch that will be merged into this one; the entry comes again
	Refused                        // the entry is invalid, or nobody here follows the key
)
