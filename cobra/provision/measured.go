package provision

// A Measurement is what a node of a running plan has measured lately. Rates are per second.
type Measurement struct {
	Role    string
	Feeds   int // that a crawler polls
	Queries int // different ones, of a filter or a reflector
	Links   int // receivers

	Articles     float64 // found by a crawler, or received
	ArticleBytes float64 // mean size
	Sent         float64 // articles for receivers, once for each
	Polls        float64 // of a crawler
	Documents    float64 // downloaded
	// DocumentBytes is the mean size of a document.
	DocumentBytes float64
	MatchSeconds  float64 // that an article took, on average
	Memory        float64 // megabytes
}

// Fitted returns a model in which what the nodes have measured replaces the constants, and the load that they carry. What
// they cannot tell stays: a crawler that has found no article yet says nothing about the size of articles, and readers'
// polls are not measured. Costs with two constants, such as those of matching, are scaled together, so that the model
// predicts the sum of what was measured.
func (m Model) Fitted(nodes []Measurement) (Model, Load) {
	var load Load
	var found, foundBytes, polls, documents, documentBytes, sent, offered float64
	var match, filterMemory, reflectorMemory fit
	for _, n := range nodes {
		queries := float64(n.Queries)
		switch n.Role {
		case Crawler:
			load.Feeds += float64(n.Feeds)
			found += n.Articles
			foundBytes += n.Articles * n.ArticleBytes
			polls += n.Polls
			documents += n.Documents
			documentBytes += n.Documents * n.DocumentBytes
		case Filter:
			sent += n.Sent
			offered += n.Articles * float64(n.Links)
			match.add(n.Articles*n.MatchSeconds, n.Articles*m.matchSeconds(queries))
			filterMemory.add(n.Memory, m.FilterFixed+m.FilterPerMillion*queries/1e6)
		case Reflector:
			load.Subscriptions += queries
			match.add(n.Articles*n.MatchSeconds, n.Articles*m.matchSeconds(queries))
			reflectorMemory.add(n.Memory, m.ReflectorFixed+m.ReflectorPerMillion*queries/1e6)
		}
	}
	replace := func(constant *float64, sum, count float64) {
		if sum > 0 && count > 0 {
			*constant = sum / count
		}
	}
	replace(&m.ArticleRate, found, load.Feeds)
	replace(&m.ArticleBytes, foundBytes, found)
	replace(&m.CrawlInterval, load.Feeds, polls)
	replace(&m.DownloadShare, documents, polls)
	replace(&m.DocumentBytes, documentBytes, documents)
	replace(&m.PassShare, min(sent, offered), offered)
	match.scale(&m.MatchFixed, &m.MatchPerMillion)
	filterMemory.scale(&m.FilterFixed, &m.FilterPerMillion)
	reflectorMemory.scale(&m.ReflectorFixed, &m.ReflectorPerMillion)
	return m, load
}

// A fit compares what was measured with what the model predicts.
type fit struct{ measured, predicted float64 }

func (f *fit) add(measured, predicted float64) {
	if measured > 0 {
		f.measured += measured
		f.predicted += predicted
	}
}

func (f *fit) scale(constants ...*float64) {
	for _, c := range constants {
		if f.predicted > 0 {
			*c *= f.measured / f.predicted
		}
	}
}
