package sums

// VersionOf names a value, for liars who name what they made up.
var VersionOf = versionOf
