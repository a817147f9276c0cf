package agents

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podgrace/podgrace/e2e/suite"
)

// ipmi is a BMC that speaks IPMI over LAN (RMCP+), for a machine whose power is a file.
type ipmi struct {
	port, dir string
}

const (
	ipmiUser     = "fencer"
	ipmiPassword = "s3cr%t&'x" // IPMI 2.0 has room for 20 bytes
)

// chassis is what ipmi_sim runs as chassis_control: get or set of properties of the chassis of the controller at an address.
const chassis = `#!/bin/sh
dir=%q
shift; what=$1; shift
[ -e "$dir/hang" ] && exec sleep 1000
[ "$what" = check ] && exit 0
while [ $# -gt 0 ]; do
  case "$what $1" in
  "get power") echo "power:$(cat "$dir/power")"; shift ;;
  get*) echo "$1:0"; shift ;;
  "set power") echo "set power $2" >> "$dir/orders"; [ -e "$dir/stuck" ] || echo "$2" > "$dir/power"; shift 2 ;;
  *) shift 2 ;;
  esac
done
`

func startIPMI(t *testing.T) *ipmi {
	t.Helper()
	b := &ipmi{dir: t.TempDir()}
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, b.port, _ = net.SplitHostPort(free.LocalAddr().String()) // of a socket's own address: never fails
	free.Close()
	b.write(t, "power", "1\n", 0o644)
	b.write(t, "chassis", fmt.Sprintf(chassis, b.dir), 0o755)
	b.write(t, "lan.conf", fmt.Sprintf(`name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %s
    priv_limit admin
    allowed_auths_callback none md5
    allowed_auths_user none md5
    allowed_auths_operator none md5
    allowed_auths_admin none md5
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "%s/chassis 0x20"
  user 2 true "%s" "%s" admin 10 md5
`, b.port, b.dir, ipmiUser, ipmiPassword), 0o644)
	b.write(t, "sim.emu", `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
`, 0o644)
	state := filepath.Join(b.dir, "state")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command("ipmi_sim", "-c", filepath.Join(b.dir, "lan.conf"), "-f", filepath.Join(b.dir, "sim.emu"), "-s", state, "-n")
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and the scripts that it runs
		_ = cmd.Wait()                                      // says that it was killed
		if t.Failed() {
			t.Logf("ipmi_sim: %s", output.String())
		}
	})
	suite.Eventually(t, "ipmi_sim answers", func(ctx context.Context) (bool, error) {
		out, err := exec.CommandContext(ctx, "ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", b.port, "-U", ipmiUser, "-P", ipmiPassword, "-N", "1", "-R", "1",
			"chassis", "power", "status").CombinedOutput()
		if err != nil {
			return false, fmt.Errorf("ipmitool: %w: %s", err, out)
		}
		return true, nil
	})
	return b
}

func (b *ipmi) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// orders is what the machine was told.
func (b *ipmi) orders(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "orders"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
