package owner

import (
	"fmt"

	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// OpenEpoch decodes an epoch made by Epoch.Bytes, of any key. It verifies that the key is that of the URL, that a
// quorum of the owners has signed, and that they are as near to the key as owners in a network of this size are. It does
// not verify that they are members: VerifyOwners does.
func (o *Owners) OpenEpoch(b []byte) (*Epoch, error) {
	e, err := o.readEpoch(b)
	if err != nil {
		return nil, err
	}
	return e, o.checkEpoch(e)
}

// openVerified is OpenEpoch for a decoded message.
func (o *Owners) openVerified(m *ownerpb.Epoch) (*Epoch, error) {
	e, err := o.openEpoch(m)
	if err != nil {
		return nil, err
	}
	return e, o.checkEpoch(e)
}

func (o *Owners) checkEpoch(e *Epoch) error {
	switch {
	case overlay.Key(o.node.Network(), e.URL) != e.Key:
		return errKey
	case !e.certifiedBy(e.Owners):
		return fmt.Errorf("%w: no quorum has signed", ErrEpoch)
	case !o.ownersNearKey(e):
		return fmt.Errorf("%w: its owners are too far from the key", ErrEpoch)
	}
	return nil
}
