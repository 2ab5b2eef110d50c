package owner

// Offer takes an entry that came down the tree, with its body, and with its epoch
// where the sender thought it might be news. It returns the entry and says what became of
// it. If it was added and the disk does not take it, refused is called: it is a gap then.
func (o *Owners) Offer(raw, body, epoch []byte, refused func(*Entry)) (*Entry, OfferResult) {
	e, err := OpenEntry(o.verify, raw)
	if err != nil {
		return nil, Refused
	}
	s := o.replicas[e.Key]
	if s == nil || !s.follow && !o.owns(s) {
		return e, Refused
	}
	// The owners hold it of the epoch that it is of; or of one that goes on from it. Where that began another
	// lineage, those of the former may never hold it. Epochs that were made up are as if there were none.
	in, by := e.At.Branch, e.Signer
	if len(epoch) > 0 {
		n, err := o.readEpoch(epoch)
		if err == nil && n.Key == s.key && (s.epoch == nil || s.epoch.Branch == e.At.Branch && s.epoch.Number < e.At.Epoch) && o.acceptable(s, n) {
			o.commitEpoch(s, n, n.Sequencer)
		}
		if err == nil && n.Key == s.key && n.AfterHash == e.Hash && n.certifiedBy(n.Owners) && (o.needsLookup(s, n) || o.ownersPlausible(s, n)) {
			in, by = n.Branch, n.Sequencer
		}
	}
	if s.log.has(e) && (s.epoch == nil || s.epoch.Branch == in || s.visible.has(e)) {
		o.markCommitted(s, e.Hash)
		return e, Known
	}
	switch {
	case s.epoch != nil && in > s.epoch.Branch && by != s.epoch.Sequencer && !o.silent(s):
		return e, OtherBranch
	case s.epoch == nil || in != s.epoch.Branch || e.At.Branch != in || e.At.Epoch > s.epoch.Number:
		return e, Gap
	case e.At.Epoch < s.epoch.Number && e.Hash != s.epoch.AfterHash:
		return e, Gap
	case e.At.Epoch == s.epoch.Number && e.Signer != s.epoch.Sequencer:
		o.stats.Untrusted++
		return e, Refused
	case e.Prev != s.log.headHash() || len(body) == 0 && e.Size > 0:
		return e, Gap
	case HashOf(body) != e.Body:
		return e, Refused
	}
	s.lastHeard = o.clock.Now()
	o.storeEntries(s, []*Entry{e}, [][]byte{body}, false, func(ok bool) {
		if !ok {
			refused(e)
		}
	})
	o.markCommitted(s, e.Hash)
	return e, Added
}

// Offered says what became of an entry from the tree.
type OfferResult uint8

const (
	Added       OfferResult = iota // it is in the log
	Known                          // it was there before
	Gap                            // something before it, its epoch or its body is missing: Pull
	OtherBranch                    // it is of a lineage that will end in this one, and comes again
	Refused                        // it breaks the rules, or nobody here follows the key
)
