package load

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/policy/policyfile"
)

// NoPolicies is the path that stands for none.
const NoPolicies = "none"

// gitPrefix makes a path one of a commit: git::REPOSITORY//FOLDER@REF.
const gitPrefix = "git::"

// maxPolicyFile in bytes is how much of a file of a commit is read.
const maxPolicyFile = 4 << 20

// gitPath is a file or folder of a commit of a repository on this machine.
type gitPath struct{ repository, path, ref string }

// gitRef is a branch, a tag or a commit, perhaps with a step back such as HEAD~1: never an option, a range or a path.
var gitRef = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+^~-]*$`)

func isRef(text string) bool { return gitRef.MatchString(text) && !strings.Contains(text, "..") }

func parseGitPath(text string) (gitPath, error) {
	rest := strings.TrimPrefix(text, gitPrefix)
	at := strings.LastIndex(rest, "@")
	switch {
	case strings.Contains(rest, "://"):
		return gitPath{}, errors.New("nothing is fetched: clone the repository, and give its folder as git::FOLDER//PATH@REF")
	case at < 0:
		return gitPath{}, errors.New("of which branch, tag or commit? git::REPOSITORY//PATH@REF, such as git::.//policies@main")
	}
	g := gitPath{ref: rest[at+1:]}
	if !isRef(g.ref) {
		return gitPath{}, fmt.Errorf("%q is no branch, tag or commit", g.ref)
	}
	g.repository, g.path, _ = strings.Cut(rest[:at], "//")
	if g.repository == "" {
		g.repository = "."
	}
	if g.path = path.Clean(g.path); !filepath.IsLocal(g.path) {
		return gitPath{}, fmt.Errorf("%q is outside of the repository's folder", g.path)
	}
	return g, nil
}

// git runs the git on the PATH, which only reads: no program of the repository's configuration has a part in it, and nothing is
// fetched, also where the repository has only a part of its objects.
func (g gitPath) git(args ...string) ([]byte, error) {
	dir, err := filepath.Abs(g.repository)
	if err != nil {
		return nil, err
	}
	var out, complaint bytes.Buffer
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "protocol.allow=never"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(complaint.String()), "\n")
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, said)
	}
	return out.Bytes(), nil
}

// commit is the one that the ref names.
func (g gitPath) commit() (string, error) {
	out, err := g.git("rev-parse", "--verify", "--quiet", "--end-of-options", g.ref+"^{commit}")
	if err != nil {
		if _, outside := g.git("rev-parse", "--git-dir"); outside != nil {
			return "", outside
		}
		return "", fmt.Errorf("%s is no branch, tag or commit of %s", g.ref, g.repository)
	}
	return strings.TrimSpace(string(out)), nil
}

// files are those that policies are read from: the file itself, or those of the folder.
func (g gitPath) files() ([]policyfile.File, error) {
	commit, err := g.commit()
	if err != nil {
		return nil, err
	}
	prefix, err := g.git("rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	full := path.Join(strings.TrimSpace(string(prefix)), g.path)
	if full == "." {
		full = ""
	}
	object := commit + ":" + full
	kind, err := g.git("cat-file", "-t", object)
	if err != nil {
		return nil, fmt.Errorf("%s has no %s", g.ref, g.path)
	}
	if strings.TrimSpace(string(kind)) != "tree" {
		file, err := g.file(object, g.path)
		return []policyfile.File{file}, err
	}
	tree, err := g.git("ls-tree", "--full-tree", "-z", object)
	if err != nil {
		return nil, err
	}
	var files []policyfile.File
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(tree), "\x00"), "\x00") {
		what, name, _ := strings.Cut(entry, "\t")
		words := strings.Fields(what)
		if len(words) != 3 || words[1] != "blob" || !policyfile.IsRead(name) {
			continue
		}
		name = path.Join(g.path, name)
		if words[0] == "120000" {
			return nil, fmt.Errorf("%s:%s is a symbolic link: name what it leads to", g.ref, name)
		}
		file, err := g.file(words[2], name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no file with policies in %s", g.ref, g.path)
	}
	return files, nil
}

// file reads a blob.
func (g gitPath) file(object, name string) (policyfile.File, error) {
	out, err := g.git("cat-file", "-s", object)
	if err != nil {
		return policyfile.File{}, err
	}
	if size, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || size > maxPolicyFile {
		return policyfile.File{}, fmt.Errorf("%s:%s is larger than %d MiB", g.ref, name, maxPolicyFile>>20)
	}
	text, err := g.git("cat-file", "blob", object)
	return policyfile.File{Name: g.ref + ":" + name, Text: text}, err
}

// gitFiles reads the paths of a flag that are of commits.
func gitFiles(flag string, paths []string) (map[string][]policyfile.File, error) {
	known := map[string][]policyfile.File{}
	var errs []error
	for _, p := range paths {
		if !strings.HasPrefix(p, gitPrefix) {
			continue
		}
		g, err := parseGitPath(p)
		if err == nil {
			known[p], err = g.files()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", flag, p, err))
		}
	}
	return known, errors.Join(errs...)
}

// AtRef replaces what is no path, but a branch, tag or commit of the repository at hand: it stands for the other side's
// paths as they were there. What is neither is a path that is not there.
func AtRef(from, to []string) []string {
	var all []string
	for _, ref := range from {
		_, err := os.Lstat(ref)
		if !errors.Is(err, os.ErrNotExist) || ref == NoPolicies || !isRef(ref) {
			all = append(all, ref)
			continue
		}
		if _, err := (gitPath{repository: ".", ref: ref}).commit(); err != nil || !slices.ContainsFunc(to, filepath.IsLocal) {
			all = append(all, ref)
			continue
		}
		for _, p := range to {
			if p != NoPolicies && !strings.HasPrefix(p, gitPrefix) {
				all = append(all, gitPrefix+".//"+filepath.ToSlash(p)+"@"+ref)
			}
		}
	}
	return all
}
