package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs it in the working directory, without what the machine's user has configured.
func git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// commitAll makes the working directory a repository with all that is in it, on branch main.
func commitAll(t *testing.T) {
	t.Helper()
	git(t, "init", "-q", "-b", "main")
	git(t, "add", "-A")
	git(t, "commit", "-q", "-m", "first")
}

func TestPoliciesOfACommit(t *testing.T) {
	inTree(t)
	inFolder(t, map[string]string{"policies/README.md": "no policy", "policies/sub/other.yaml": "kind: x"})
	commitAll(t)
	git(t, "tag", "v1")
	if err := os.Symlink("web.yaml", "policies/link.yaml"); err != nil {
		t.Fatal(err)
	}
	git(t, "add", "-A")
	git(t, "commit", "-q", "-m", "a link")
	git(t, "tag", "linked")
	if err := os.Remove("policies/link.yaml"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("policies/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, map[string]string{"policies/web.yaml": strings.Replace(string(text), "minSeconds: 20", "minSeconds: 50", 1)})
	marker := filepath.Join(t.TempDir(), "ran")
	for name, test := range map[string]struct {
		args string
		code int
		says string
	}{
		"review by the work tree": {"review -f deploy --policy policies", 0, "is now 50, not 10"},
		"by a tag":                {"review -f deploy --policy git::.//policies@v1", 0, "is now 20, not 10"},
		"by a file of it":         {"review -f deploy --policy git:://policies/web.yaml@v1", 0, "is now 20, not 10"},
		"a step back":             {"review -f deploy --policy git::.//policies@main~1", 0, "is now 20, not 10"},
		"explain":                 {"explain Deployment/web -f deploy --policy git::.//policies@v1", 0, "minimum 20 s"},
		"diff":                    {"diff --from v1 --to policies -f deploy", 1, "20 → 50"},
		"diff, both of commits":   {"diff --from git::.//policies@v1 --to git::.//policies@v1 -f deploy", 0, "changes nothing"},
		"no such ref":             {"review -f deploy --policy git::.//policies@gone", 2, "gone is no branch, tag or commit of ."},
		"no such folder":          {"review -f deploy --policy git::.//gone@v1", 2, "v1 has no gone"},
		"no policies":             {"review -f deploy --policy git::.//deploy@v1", 2, "no PodPolicy in it"},
		"nothing to read":         {"review -f deploy --policy git::.//@v1", 2, "v1 has no file with policies in ."},
		"a link":                  {"review -f deploy --policy git::.//policies@linked", 2, "linked:policies/link.yaml is a symbolic link"},
		"no repository":           {"review -f deploy --policy git::" + t.TempDir() + "//policies@v1", 2, "not a git repository"},
		"no ref":                  {"review -f deploy --policy git::.//policies", 2, "of which branch, tag or commit?"},
		"outside":                 {"review -f deploy --policy git::.//../policies@v1", 2, `"../policies" is outside`},
		"a URL":                   {"review -f deploy --policy git::https://example.com/x//policies@v1", 2, "nothing is fetched"},
		"an option":               {"review -f deploy --policy git::.//policies@--upload-pack=touch${IFS}" + marker, 2, "is no branch, tag or commit"},
		"an option of output":     {"review -f deploy --policy git::.//policies@--output=" + marker, 2, "is no branch, tag or commit"},
		"a range":                 {"review -f deploy --policy git::.//policies@v1..main", 2, "is no branch, tag or commit"},
		"a repository's option":   {"review -f deploy --policy git::--exec-path=/x//policies@v1", 2, "--exec-path=/x"},
		"a shell":                 {"review -f deploy --policy git::.//$(touch${IFS}" + marker + ")@v1", 2, "v1 has no $(touch"},
		"diff from nothing":       {"diff --from gone --to policies -f deploy", 2, "--from gone: no such file or directory"},
		"diff from an option":     {"diff --from=--output=" + marker + " --to policies -f deploy", 2, "no such file or directory"},
		"broken at that commit":   {"review -f deploy --policy git::.//typo@v1", 2, "v1:typo/policy.yaml:6"},
	} {
		t.Run(name, func(t *testing.T) {
			state := " --state cluster"
			if code, out, complaints := typed(t, "", test.args+state); code != test.code || !strings.Contains(out+complaints, test.says) {
				t.Errorf("exit %d, want %d and %q: %s%s", code, test.code, test.says, out, complaints)
			}
		})
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program was run")
	}
	// A path counts before a ref, and the folder at hand is the repository's or below it.
	git(t, "branch", "deploy", "v1")
	if code, _, complaints := typed(t, "", "diff --from deploy --to policies -f deploy --state cluster"); code != 2 || !strings.Contains(complaints, "--from deploy: no PodPolicy in it") {
		t.Errorf("a path: exit %d: %s", code, complaints)
	}
	t.Chdir("policies")
	if code, out, complaints := typed(t, "", "diff --from v1 --to web.yaml -f ../deploy --state ../cluster"); code != 1 || !strings.Contains(out, "20 → 50") {
		t.Errorf("below: exit %d: %s%s", code, out, complaints)
	}
}
