"""What test_window does in its session: DIRECTORY is for files, and has noisy.wav. The window is read and moved
from outside, by its accessible tree and by the keyboard."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import wave

import gi
import numpy as np

gi.require_version('Atspi', '2.0')
from gi.repository import Atspi, Gio, GLib  # noqa: E402

TMP = sys.argv[1]
WAYLAND = 'WAYLAND_DISPLAY' in os.environ
CONFIG = f'{TMP}/primeknet.conf'
RUNTIME = os.environ['XDG_RUNTIME_DIR']
PATIENCE_S = 60
SAVED = f'{TMP}/primeknet-saved.conf'
open(CONFIG, 'w').write('model = "small"\n')
open(SAVED, 'w').close()
for folder in 'models', 'bin':
    shutil.rmtree(f'{TMP}/{folder}', ignore_errors=True)
    os.mkdir(f'{TMP}/{folder}')
for name in 'small', 'base':  # so that the large one is refused
    os.symlink(os.path.join(os.environ['PRIMEKNET_MODELS'], f'{name}.safetensors'), f'{TMP}/models/{name}.safetensors')
os.environ['PRIMEKNET_MODELS'] = f'{TMP}/models'


def wait(what, until):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if value := until():
                return value
        except (GLib.Error, AttributeError, StopIteration):  # of the tree, while it changes
            pass
        GLib.MainContext.default().iteration(False)
        time.sleep(0.1)
    raise SystemExit(f'FAIL: {what}\n' + '\n'.join(f'{role} {name!r}' for role, name, _ in tree()))


def ok(what):
    print(f'ok: {what}', flush=True)


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def status():
    try:
        return json.loads(run('primeknet', 'status', '--json'))
    except subprocess.CalledProcessError:
        return None


def kept():
    """What is saved, without the head."""
    return ''.join(line for line in open(SAVED) if not line.startswith('#'))


def setting(name):
    return status()['settings'][name]


# ---- what the window shows -------------------------------------------------------------------------------------------


def has(node, state):
    return node.get_state_set().contains(state)


def tree():
    """Role, name and object of all that is on the screen, one after another."""
    left = [Atspi.get_desktop(0)]
    while left:
        node = left.pop()
        if not node:
            continue
        role = node.get_role_name()
        role = 'push button' if role == 'button' else role  # AT-SPI's newer name
        if role == 'application':
            node.set_cache_mask(Atspi.Cache.NONE)
        if role not in ('desktop frame', 'application') and not has(node, Atspi.StateType.VISIBLE):
            continue
        yield role, node.get_name(), node
        left += reversed(children(node))


def children(node):
    return [node.get_child_at_index(i) for i in range(node.get_child_count())]


def find(role, name):
    return next((node for r, n, node in tree() if r == role and n == name), None)


def shows(text):
    return any(text in name for role, name, _ in tree() if role == 'label')


def focus():
    return [(role, name) for role, name, node in tree() if has(node, Atspi.StateType.FOCUSED)]


def is_on(name):
    return has(find('check box', name), Atspi.StateType.CHECKED)


def button(name):
    """What a row activates is called by the row's name, too, or by that alone."""
    return next((node for role, n, node in tree() if role in ('push button', 'toggle button') and
                 any(text.startswith(name) for text in (n, *(child.get_name() for child in children(node))))), None)


def click(name):
    wait(f'no button {name}', lambda: button(name)).get_action_iface().do_action(0)


def present():
    return find('check box', 'Remove noise')


def value(role, name):
    return find(role, name).get_value_iface().get_current_value()


def choice(name):
    """What a row with choices shows."""
    left, texts = [find('combo box', name)], []
    while left:
        node = left.pop()
        texts += [node.get_name()] if node.get_role_name() == 'label' else []
        left += children(node)
    return texts


def press(*keys):
    """Keys such as 'Left' and 'ctrl+w', one after another."""
    if not WAYLAND:
        run('xdotool', 'key', '--delay', '50', *keys)
        return
    words = []
    for *modifiers, key in (k.split('+') for k in keys):
        words += [word for m in modifiers for word in ('-M', m)] + ['-k', key]
        words += [word for m in modifiers for word in ('-m', m)] + ['-s', '50']
    run('wtype', *words)


def start(*words):
    return subprocess.Popen(words, stderr=sys.stderr)


def daemon_starts():
    return start('primeknetd', '--config', CONFIG)


def focused(node):
    """The title of the window that has the keyboard, in a tree of sway's; None."""
    inner = (focused(inner) for inner in node['nodes'] + node['floating_nodes'])
    return node['name'] if node['focused'] else next(filter(None, inner), None)


def window_shows():
    """Waits for the window, and for the keyboard to be its: nobody manages windows on the X server."""
    if WAYLAND:
        wait('no window', lambda: focused(json.loads(run('swaymsg', '-t', 'get_tree'))) == 'PrimeKnet')
        return
    search = ['xdotool', 'search', '--onlyvisible', '--class', 'primeknet-gtk']
    window = wait('no window', lambda: subprocess.run(search, capture_output=True, text=True).stdout.split())[-1]
    run('xdotool', 'windowsize', '--sync', window, '480', '1980')
    run('xdotool', 'windowfocus', '--sync', window)


# ---- the daemon away, and there --------------------------------------------------------------------------------------

assert re.fullmatch(r'primeknet-gtk \S+\n', run('primeknet-gtk', '--version'))
gtk = start('primeknet-gtk')
window_shows()
wait('the absence is not shown', lambda: shows('Enhanced Mic Is Off') and shows('The service does not run.'))
assert not present()
daemon = daemon_starts()
wait('the daemon is not shown', lambda: present() and not shows('Enhanced Mic Is Off'))
wait('the microphone is not shown', lambda: 'Fake microphone fake_mic' in choice('Microphone'))
wait('the state is not shown', lambda: shows('Nobody is listening') and shows('choose Enhanced Mic'))
assert not find('combo box', 'Engine') or os.path.exists('/proc/driver/nvidia/version'), 'a row for no GPU'
ok('shows that the daemon is away, and that it has come')
assert not re.search('_dri|gallium', open(f'/proc/{gtk.pid}/maps').read()), 'draws with OpenGL'


def assert_named():
    controls = 'check box', 'slider', 'combo box', 'push button', 'level bar'
    wordless = [role for role, name, _ in tree() if not name and role in controls]
    assert not wordless, wordless


assert_named()
ok('each control has a name')

# ---- every control, by the keyboard ----------------------------------------------------------------------------------

press('alt+r')
wait('the switch does nothing', lambda: status()['bypass'])
press('alt+r')
wait('the switch does nothing twice', lambda: not status()['bypass'])
press('alt+u')
wait('fine tuning stays closed', lambda: find('slider', 'Strength'))
press('alt+s', 'Left', 'Left')
wait('strength is not set', lambda: setting('strength') == 0.9)
wait('values of no preset are not called so', lambda: {'Custom', 'Your own values'} <= set(choice('Preset')))
press('alt+f', 'Right', 'Right')
wait('floor is not set', lambda: setting('floor_db') == -58)
press('alt+l', 'Right')
wait('low cut is not set', lambda: setting('low_cut_hz') == 80)
press('alt+c')
wait('the echo is not cancelled', lambda: setting('echo_cancel') == 'true')
press('alt+v')
wait('the loudness is not evened out', lambda: setting('level') == -23)
press('alt+v')
wait('the loudness is evened out', lambda: 'level = "off";' in kept())
run('primeknet', 'set', 'level', '-20')
wait('a loudness that was set is not shown', lambda: is_on('Even out my loudness'))
for level in 'off', -20, 'off':
    press('alt+v')
    wait(f'the loudness is not {level}', lambda: setting('level') == level)
press('alt+f', 'Home')
wait('floor is not off', lambda: setting('floor_db') == 'off')


def options():
    """What an open list of choices offers."""
    return [node for role, _, node in tree() if role == 'list item' and
            node.get_parent().get_parent().get_role_name() == 'scroll pane']


def choose(key, downs):
    wait('choices stay', lambda: not options())
    press(key)
    wait(f'{key} offers nothing', lambda: any(has(node, Atspi.StateType.FOCUSED) for node in options()))
    press('Home', *['Down'] * downs, 'Return')


choose('alt+m', 1)
wait('the microphone is not set', lambda: setting('microphone') == 'fake_mic')
press('alt+a')
wait('the advanced rows stay away', lambda: find('combo box', 'Model'))
assert_named()
choose('alt+e', 2)
wait('the model is not set', lambda: setting('model') == 'base')
choose('alt+k', 1)
wait('the speaker is not set', lambda: setting('speaker') == 'default')
wait('the speaker is not shown', lambda: 'No application plays' in choice('Enhanced Speaker'))
wanted = ['strength = 0.9', 'floor_db = "off"', 'low_cut_hz = 80', 'microphone = "fake_mic"', 'model = "base"',
          'echo_cancel = true', 'speaker = "default"']
wait('not kept', lambda: all(line in kept() for line in wanted))
assert open(CONFIG).read() == 'model = "small"\n', "the user's file is changed"
ok('each control does what it says, and is kept')

choose('alt+p', 2)
wait('the preset is not set', lambda: setting('preset') == 'strong' and setting('low_cut_hz') == 100)
wait('the preset is not shown', lambda: 'Strong' in choice('Preset') and value('slider', 'Low cut') == 100)
wait('the preset is not kept', lambda: 'preset = "strong"' in kept())
click('Reset')
wait('the values are not reset', lambda: setting('preset') == 'balanced' and setting('strength') == 1)
ok('sets a preset, and resets what it stands for')

choose('alt+e', 3)
wait('a refusal is not told',
     lambda: any(role == 'label' and 'large' in name and ' ' in name for role, name, _ in tree()))
wait('the refused value stays', lambda: 'base' in choice('Model'))
assert setting('model') == 'base'
ok('tells a refusal, and shows what is in force')

# ---- what others change ----------------------------------------------------------------------------------------------

run('primeknet', 'set', 'strength', '0.5')
wait('strength is not followed', lambda: value('slider', 'Strength') == 0.5)
run('primeknet', 'set', 'floor-db', '-18')
wait('floor is not followed', lambda: value('slider', 'Floor') == -18)
run('primeknet', 'set', 'low-cut-hz', '100')
wait('low cut is not followed', lambda: value('slider', 'Low cut') == 100)
run('primeknet', 'bypass', 'on')
wait('bypass is not followed', lambda: not is_on('Remove noise') and shows('Noise is not removed'))
run('primeknet', 'bypass', 'off')
run('primeknet', 'set', 'echo-cancel', 'false')
wait('echo is not followed', lambda: not is_on('Cancel echo'))
run('primeknet', 'model', 'small')
wait('the model is not followed', lambda: any(text.startswith('small on cpu') for text in choice('Model')))
run(os.path.join(os.path.dirname(__file__), '../pipewire-session'), 'add-mic', os.path.join(TMP, 'session'),
    'usb_mic')
run('primeknet', 'use', 'usb')
wait('another microphone is not followed', lambda: 'Fake microphone usb_mic' in choice('Microphone'))
run('primeknet', 'use', 'fake_mic')
run('primeknet', 'set', 'speaker', 'off')
wait('the speaker is not followed', lambda: 'Off' in choice('Enhanced Speaker'))
assert setting('strength') == 0.5 and 'strength = 0.5' not in kept(), 'the window kept what others set'
ok('follows what others change, and keeps nothing of it')

# ---- settings of one microphone --------------------------------------------------------------------------------------


def has_own():
    return is_on('Only for this microphone')


def saved():
    """What is saved before the profiles, and in them."""
    return kept().partition('profiles')[::2]


wait('fake_mic is not followed', lambda: status()['microphone']['name'] == 'fake_mic' and
     'Fake microphone fake_mic' in choice('Microphone'))
assert not has_own() and status()['profile'] is None
press('alt+t')
wait('there is no profile', lambda: status()['profile'] == 'fake_mic' and 'microphone = "fake_mic"' in saved()[1])
wait('the profile is not shown', lambda: has_own() and shows('Fake microphone fake_mic has settings of its own'))
press('alt+s', 'Left')
wait('strength is not set', lambda: setting('strength') == 0.45)
choose('alt+e', 0)
wait('the model is not set', lambda: setting('model') == 'auto')
wanted = ['strength = 0.45', 'floor_db = -18', 'low_cut_hz = 100', 'model = "auto"']
wait('not kept in the profile', lambda: all(line in saved()[1] for line in wanted))
assert 'strength = 0.45' not in saved()[0] and 'model = "base"' in saved()[0], 'kept for all microphones'
run('primeknet', 'use', 'usb')
wait('another microphone has the settings', lambda: value('slider', 'Strength') == 0.5 and not has_own())
wait('the network stays', lambda: setting('model') == 'small')
run('primeknet', 'use', 'fake_mic')
wait('the profile does not come back', lambda: value('slider', 'Strength') == 0.45 and has_own())
press('alt+t')
wait('the profile stays', lambda: status()['profile'] is None and value('slider', 'Strength') == 0.5 and not has_own())
assert saved()[1] == '' and setting('model') == 'small'
run('primeknet', 'profile', 'on')
wait('a profile made elsewhere is not shown', has_own)
run('primeknet', 'profile', 'off')
wait('a profile removed elsewhere is shown', lambda: not has_own())
ok('remembers settings for one microphone')

# ---- who records, and how that sounds --------------------------------------------------------------------------------


def picture(*words):
    """What ImageMagick tells of the screen."""
    return run('import', '-window', 'root', *words, 'info:')


def bars():
    """Whether the upper part of the spectrum shows more than its background."""
    spectrum = find('image', 'Spectrum before and after')
    if not spectrum:
        return False
    box = spectrum.get_component_iface().get_extents(Atspi.CoordType.WINDOW)
    return int(picture('-crop', f'{box.width}x{box.height * 9 // 10}+{box.x}+{box.y}', '-format', '%k')) > 1


PICTURES = not WAYLAND and shutil.which('import')
assert not PICTURES or not bars()


def somebody_speaks():
    """For five minutes."""
    player = start('pw-cat', '--playback', '--target', '0', '-P', '{ node.name = player }', f'{TMP}/noisy.wav')
    wait('no player', lambda: 'player:output_MONO' in run('pw-link', '-o').split())
    run('pw-link', 'player:output_MONO', 'fake_mic:input_MONO')
    return player


player = somebody_speaks()
recorder = start('pw-record', '--target', 'enhanced_mic', f'{TMP}/recorded.wav')
wait('who records is not shown', lambda: shows('Working: pw-record hears you without noise'))
wait('no level', lambda: value('level bar', 'Level of the microphone') > 30)
wait('no noise is removed', lambda: any(re.fullmatch('[1-9][0-9]* dB', name) for _, name, _ in tree()))
wait('no delay', lambda: shows(' ms'))
assert find('image', 'Not too loud')
if PICTURES:
    wait('the spectrum is empty', bars)
run('pactl', 'set-source-volume', 'fake_mic', '600%')
wait('clipping is not shown', lambda: shows('Too loud') and find('image', 'Too loud'))
run('pactl', 'set-source-volume', 'fake_mic', '100%')
wait('clipping stays', lambda: shows('Working: ') and find('image', 'Not too loud'))
recorder.kill()
wait('the end of the recording is not shown',
     lambda: shows('Nobody is listening') and value('level bar', 'Level of the microphone') == 0)
assert not find('image', 'Spectrum before and after')
ok('shows who records, level, clipping, noise, delay and spectrum')

# ---- hearing it ------------------------------------------------------------------------------------------------------


def recordings():
    return sorted(glob.glob(f'{RUNTIME}/primeknet-test-*/*.wav'))


def pauses_db(file):
    """How loud the quietest tenth is, but for gaps: where the machine is busy, the player stumbles."""
    with wave.open(file) as sound:
        seconds = sound.getnframes() / sound.getframerate()
        x = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).astype(float)
    assert 4 < seconds < 8, seconds
    frames = x[:len(x) // 480 * 480].reshape(-1, 480)[50:]
    return np.percentile(20 * np.log10(1 + np.sqrt((frames[frames.any(1)] ** 2).mean(1))), 10)


def plays(name):
    return has(button(name), Atspi.StateType.PRESSED)


def own_recorders():
    return status()['recorders'].count('PrimeKnet')


def hears_itself():
    """Records, and hears that before and after."""
    press('alt+o')
    wait('it does not record', lambda: shows('Speak now: '))
    yield
    wait('the recording is not played', lambda: plays('Before'))
    before, after = map(pauses_db, recordings()[::-1])
    assert after < before - 6, (before, after)
    wait('it is not played enhanced', lambda: plays('After') and not plays('Before'))
    wait('playing does not end', lambda: not plays('After'))
    click('Before')
    wait('it is not played again', lambda: plays('Before'))
    click('Before')
    wait('playing is not stopped', lambda: not plays('Before'))


for _ in hears_itself():
    wait('the test is not shown', lambda: shows('Working: only this window listens'))
    assert not find('check box', 'PrimeKnet'), 'a row for the window itself'
wait('no judgement', lambda: shows('Your voice was heard, and the noise'))
ok('tests the microphone, and plays that before and after')

assert not has(button('Bypass'), Atspi.StateType.SENSITIVE)
press('alt+h')
wait('it does not listen', lambda: own_recorders() == 1 and is_on('Hear yourself'))
press('alt+b')
wait('it does not compare', lambda: status()['bypass'] and not is_on('Remove noise'))
press('alt+h')
wait('it listens on', lambda: own_recorders() == 0 and not is_on('Hear yourself'))
wait('the comparison does not end with it', lambda: not status()['bypass'] and is_on('Remove noise'))
player.kill(), player.wait()
ok('lets one hear oneself, with and without noise')

# ---- applications ----------------------------------------------------------------------------------------------------


def application():
    """What the daemon says of pw-record: what was chosen for it, and what it records."""
    return next(((a['choice'], a['from']) for a in status()['applications'] if a['name'] == 'pw-record'), None)


wait('applications are shown that do not record', lambda: shows('No application records.'))
player = somebody_speaks()  # or the window would say that there is no sound
recorder = start('pw-record', '--target', 'fake_mic', f'{TMP}/recorded.wav')
wait('no row for who records', lambda: find('check box', 'pw-record') and not is_on('pw-record'))
wait('noise is not warned of', lambda: shows('pw-record hears you with noise'))
assert_named()
click('Remove Noise')
wait('not moved to Enhanced Mic', lambda: application() == ('on', ['Enhanced Mic']))
wait('the move is not shown', lambda: is_on('pw-record') and shows('Working: pw-record hears you without noise'))
press('alt+r')
wait('the switch does nothing for who records', lambda: status()['bypass'] and shows('Noise is not removed'))
press('alt+r')
wait('the switch does nothing twice for who records', lambda: not status()['bypass'] and shows('Working: '))
at = focus()
while ('check box', 'pw-record') not in at:
    press('Tab')
    at = wait('the focus does not move', lambda: (now := focus()) != at and now)
press('space')
wait('not moved away', lambda: application() == ('off', ['Fake microphone fake_mic']))
wait('a choice is warned of', lambda: shows('Nobody is listening'))
run('primeknet', 'app', 'pw-record', 'on')
wait('a choice is not followed', lambda: is_on('pw-record'))
assert_named()
recorder.kill()
wait('the end is not shown', lambda: shows('Records nothing now'))
run('primeknet', 'app', 'pw-record', 'off')
wait('a choice for who does not record is not followed', lambda: not is_on('pw-record'))
click('Let the application choose again')
wait('the choice is not forgotten', lambda: not application())
wait('who is forgotten is shown', lambda: not find('check box', 'pw-record') and shows('No application records.'))
recorder = start('pw-record', '--target', 'enhanced_mic', '-P', '{ application.name = "A & <b>" }',
                 f'{TMP}/recorded.wav')
wait('a name is not shown as it is', lambda: find('check box', 'A & <b>') and shows('A & <b>'))
player.kill(), player.wait()
ended = time.monotonic()
wait('silence is not told', lambda: shows('It sends nothing but silence'))
assert time.monotonic() - ended < 20, 'silence is told too late'
recorder.kill(), recorder.wait()
ok('moves applications, and shows where others move them; and tells silence')

# ---- problems --------------------------------------------------------------------------------------------------------


def muted():
    return 'yes' in run('pactl', 'get-source-mute', 'fake_mic')


def mute():
    run('pactl', 'set-source-mute', 'fake_mic', '1')
    wait('the mute is not shown', lambda: shows('Muted') and shows('fake_mic is muted, so nobody hears you'))


player = somebody_speaks()  # of nodes that do not run PipeWire 1.4 does not tell what has become of their volume
mute()
click('Unmute')
wait('the mute is not undone', lambda: not muted() and not shows('Muted') and shows('Nobody is listening'))
run('primeknet', 'bypass', 'on')
wait('bypass is not warned of', lambda: shows('Noise is not removed'))
click('Turn On')
wait('bypass is not undone', lambda: not status()['bypass'] and shows('Nobody is listening'))
with open(CONFIG, 'a') as file:
    file.write('strenght = 1\n')
daemon.send_signal(signal.SIGHUP)
wait('the error is not shown', lambda: shows('The settings file has an error') and shows('"strenght"'))
assert button('Open File')
right = open(CONFIG).read().replace('strenght = 1\n', '')
open(CONFIG, 'w').write(right)
daemon.send_signal(signal.SIGHUP)
wait('the error stays', lambda: shows('Nobody is listening'))
ok('says what is wrong, with the remedy')

mute()
frame = find('frame', 'PrimeKnet').get_action_iface()
frame.do_action([frame.get_action_name(i) for i in range(frame.get_n_actions())].index('win.check'))
wait('the mute is not found', lambda: any(name.startswith('Fake microphone fake_mic is muted\n')
                                         for _, name, _ in tree()))
buttons = [node for role, name, node in tree() if role == 'push button' and name.startswith('Fix')]
assert muted() and buttons
for fix in buttons:
    if 'set-mute' in fix.get_description():
        fix.get_action_iface().do_action(0)
wait('the mute is not undone', lambda: not muted() and not shows('Fake microphone fake_mic is muted'))
press('Escape')
player.kill(), player.wait()
ok('finds problems, and solves one')

# ---- the desktop -----------------------------------------------------------------------------------------------------


def offer(path, interface, methods, call, get=None):
    """Serves methods on the session bus: call takes a method's name and parameters, and returns what it answers."""
    node = Gio.DBusNodeInfo.new_for_xml(f'<node><interface name="{interface}">{methods}</interface></node>')

    def on_call(bus, sender, path, interface, method, parameters, invocation):
        invocation.return_value(call(method, parameters.unpack()))
    bus.register_object(path, node.interfaces[0], on_call, get, None)


def own(name):
    return Gio.bus_own_name_on_connection(bus, name, Gio.BusNameOwnerFlags.REPLACE, None, None)  # a real one, too


def script(name, text):
    path = f'{TMP}/bin/{name}'
    with open(path, 'w') as file:
        file.write('#!/bin/sh\n' + text)
    os.chmod(path, 0o755)


def start_with_scripts():
    return start('env', f'PATH={TMP}/bin:{os.environ["PATH"]}', 'primeknet-gtk')


bus = Gio.bus_get_sync(Gio.BusType.SESSION)
UNIT = f'{TMP}/unit'
open(UNIT, 'w').write('disabled')
script('systemctl', f'test "$1 $3" = "--user primeknet" && echo $2d > {UNIT}\n')
script('primeknet', f"""test "$1" = setup || exec {shutil.which("primeknet")} "$@"
echo enabled > {UNIT}
setsid primeknetd --config {CONFIG} &
echo $! > {TMP}/started
""")
window_shows()
press('ctrl+w')
assert gtk.wait(PATIENCE_S) == 0
gtk = start_with_scripts()
window_shows()
wait('no system', lambda: find('check box', 'Use as default microphone'))
assert not find('check box', 'Start at login'), 'a switch without systemd'
press('alt+d')
wait('not the default', lambda: status()['default'] and setting('microphone') == 'fake_mic')
press('alt+d')
wait('the default stays', lambda: not status()['default'] and not is_on('Use as default microphone'))
run('primeknet', 'default', 'on')
wait('the default is not followed',
     lambda: is_on('Use as default microphone') and shows('applications use Enhanced Mic'))
run('primeknet', 'default', 'off')
wait('the default is not followed back', lambda: not is_on('Use as default microphone'))
offer('/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager', '<method name="GetUnitFileState">'
      '<arg type="s" direction="in"/><arg type="s" direction="out"/></method>',
      lambda method, parameters: GLib.Variant('(s)', (open(UNIT).read().strip(),)))
systemd = own('org.freedesktop.systemd1')
press('ctrl+w')
assert gtk.wait(PATIENCE_S) == 0
daemon.terminate(), daemon.wait()
gtk = start_with_scripts()
window_shows()
wait('the first start is not shown', lambda: shows('A Clean Microphone') and not present())
press('alt+s')
wait('the service is not started', lambda: present() and is_on('Start at login'))
press('alt+g')
wait('the service starts at login', lambda: open(UNIT).read() == 'disabled\n' and not is_on('Start at login'))
press('alt+g')
wait('the service does not start at login', lambda: open(UNIT).read() == 'enabled\n' and is_on('Start at login'))
os.kill(int(open(f'{TMP}/started').read()), signal.SIGTERM)
wait('the end is not shown', lambda: shows('Enhanced Mic Is Off') and shows('The service does not run.'))
ok('starts the service, for good; and makes Enhanced Mic the default')

# A microphone that takes its time, as a Bluetooth headset does: the five seconds begin when it sends.
script('pw-record', f'sleep 2\nexec {shutil.which("pw-record")} "$@"\n')
player = somebody_speaks()
press('alt+o')
wait('the start is not told', lambda: shows('Starting the microphone'))
click('Stop')
wait('the start does not end', lambda: not shows('Starting the microphone') and not recordings())
for _ in hears_itself():
    pass
assert shows('Compare how you sound.')
press('alt+o')
wait('it does not record again', lambda: shows('Speak now: '))
press('ctrl+w')
assert gtk.wait(PATIENCE_S) == 0
wait('the recording stays', lambda: not recordings())
ok('tests the microphone without the daemon; and keeps nothing')
Gio.bus_unown_name(systemd)
player.kill()

# ---- a key of the desktop's ------------------------------------------------------------------------------------------

SHORTCUTS = 'org.freedesktop.portal.GlobalShortcuts'
DESKTOP = '/org/freedesktop/portal/desktop'
SESSION = f'{DESKTOP}/session/1'
calls, bound = [], []


def on_portal(method, parameters):
    """The user cancels the first attempt. As in the real one, a session has one attempt."""
    calls.append(method)
    if method == 'Close':
        return None
    response, results = 0, {'session_handle': GLib.Variant('s', SESSION)}
    if method == 'BindShortcuts':
        bound.append(parameters[1][0][0])
        key = {'trigger_description': GLib.Variant('s', 'Ctrl+Alt+N')}
        results = {'shortcuts': GLib.Variant('a(sa{sv})', [(bound[-1], key)])}
        response = 1 if len(bound) == 1 else 0
    asker = window_name()
    path = f'{DESKTOP}/request/{asker[1:].replace(".", "_")}/{parameters[-1]["handle_token"]}'
    GLib.idle_add(lambda: bus.emit_signal(asker, path, 'org.freedesktop.portal.Request', 'Response',
                                          GLib.Variant('(ua{sv})', (response, results))) and False)
    return GLib.Variant('(o)', (path,))


def window_name():
    return bus.call_sync('org.freedesktop.DBus', '/', 'org.freedesktop.DBus', 'GetNameOwner',
                         GLib.Variant('(s)', ('org.primeknet.PrimeKnet',)), None, 0, -1, None)[0]


OPTIONS = '<arg type="a{sv}" direction="in"/><arg type="o" direction="out"/></method>'
offer(DESKTOP, SHORTCUTS, f'<property name="version" type="u" access="read"/><method name="CreateSession">{OPTIONS}'
      '<method name="BindShortcuts"><arg type="o" direction="in"/><arg type="a(sa{sv})" direction="in"/>'
      f'<arg type="s" direction="in"/>{OPTIONS}', on_portal, lambda *_: GLib.Variant('u', 1))
offer(SESSION, 'org.freedesktop.portal.Session', '<method name="Close"/>', on_portal)
portal = own('org.freedesktop.portal.Desktop')
daemon = daemon_starts()
for _ in 'asked for', 'remembered':
    gtk = start('primeknet-gtk')
    window_shows()
    if not bound:
        wait('no row for the key', lambda: button('Set…'))
        wait('it does not ask again', lambda: len(bound) > 1 or click('Set…'))
    wait('the key is not shown', lambda: shows('Ctrl+Alt+N'))
    bus.emit_signal(window_name(), DESKTOP, SHORTCUTS, 'Activated',
                    GLib.Variant('(osta{sv})', (SESSION, bound[0], 0, {})))
    wait('the key does nothing', lambda: status()['bypass'])
    run('primeknet', 'bypass', 'off')
    press('ctrl+w')
    assert gtk.wait(PATIENCE_S) == 0
assert calls == ['CreateSession', 'BindShortcuts', 'Close'] + 2 * ['CreateSession', 'BindShortcuts'], calls
Gio.bus_unown_name(portal)
ok('has a key of the desktop switch noise removal')

# ---- the daemon ends, the window ends --------------------------------------------------------------------------------

gtk = start('primeknet-gtk')
window_shows()
wait('no window', present)
daemon.terminate(), daemon.wait()
wait('the end is not shown', lambda: shows('Enhanced Mic Is Off'))
daemon = daemon_starts()
wait('the return is not shown', present)
window_shows()
press('alt+u')
wait('fine tuning stays closed', lambda: find('slider', 'Strength'))
press('alt+s', 'Left', 'ctrl+w')  # what is on its way when the window is closed is kept
assert gtk.wait(PATIENCE_S) == 0
wait('the last movement is lost', lambda: setting('strength') == 0.95 and 'strength = 0.95' in kept())
ok('ends without the daemon')

if PICTURES:
    for scheme, shown in ('prefer-light', lambda mean: mean > 0.8), ('prefer-dark', lambda mean: 0.05 < mean < 0.3):
        gtk = start('env', f'ADW_DEBUG_COLOR_SCHEME={scheme}', 'primeknet-gtk')
        window_shows()
        frame = wait('no frame', lambda: find('frame', 'PrimeKnet')) # AT-SPI hears of it later than the X server
        box = frame.get_component_iface().get_extents(Atspi.CoordType.WINDOW)
        crop = f'{box.width}x{box.height}+0+0'
        wait(scheme, lambda: shown(float(picture('-crop', crop, '-format', '%[fx:mean]'))))
        press('ctrl+w')
        assert gtk.wait(PATIENCE_S) == 0
    ok('is light or dark')

    run('primeknet', 'bypass', 'on')
    gtk = start('primeknet-gtk')
    window_shows()
    run('xdotool', 'windowsize', '--sync', run('xdotool', 'getwindowfocus').strip(), '360', '1380')
    wait('the advice is squeezed', lambda: 300 < next(
        node.get_component_iface().get_extents(Atspi.CoordType.WINDOW).width
        for _, name, node in tree() if name.startswith('Noise removal is switched off')) < 360)
    press('ctrl+w')
    assert gtk.wait(PATIENCE_S) == 0
    run('primeknet', 'bypass', 'off')
    ok('has room for advice in a narrow window')

# ---- the tray --------------------------------------------------------------------------------------------------------

items = []
recorder = start('pw-record', '--target', 'fake_mic', f'{TMP}/recorded.wav')
wait('nobody records', application)
run('primeknet', 'app', 'pw-record', 'off')
WATCHER = 'org.kde.StatusNotifierWatcher'
gtk = start('primeknet-gtk', '--tray')
window_shows()
wait('no window in place of the tray', present)
press('ctrl+w')
assert gtk.wait(PATIENCE_S) == 0
offer('/StatusNotifierWatcher', WATCHER, '<method name="RegisterStatusNotifierItem">'
      '<arg name="service" type="s" direction="in"/></method>', lambda method, parameters: items.append(parameters[0]))
gtk = start('primeknet-gtk', '--tray')
time.sleep(2)
watcher = own(WATCHER)
wait('no item', lambda: items)


def call(path, interface, method, parameters):
    return bus.call_sync(items[0], path, interface, method, parameters, None, Gio.DBusCallFlags.NONE, 1000 * PATIENCE_S,
                         None)


def item(method, *parameters):
    return call('/StatusNotifierItem', 'org.kde.StatusNotifierItem', method, GLib.Variant(*parameters))


def icon():
    return call('/StatusNotifierItem', 'org.freedesktop.DBus.Properties', 'Get',
                GLib.Variant('(ss)', ('org.kde.StatusNotifierItem', 'IconName')))[0]


def menu():
    """label: (id, whether it is checked)"""
    found, left = {}, [call('/MenuBar', 'com.canonical.dbusmenu', 'GetLayout', GLib.Variant('(iias)', (0, -1, [])))[1]]
    while left:
        number, properties, children = left.pop()
        found[properties.get('label')] = number, properties.get('toggle-state') == 1
        left += children
    return found


def choose_item(label):
    event = menu()[label][0], 'clicked', GLib.Variant('i', 0), 0
    call('/MenuBar', 'com.canonical.dbusmenu', 'Event', GLib.Variant('(isvu)', event))


wait('the tray does not show that noise is removed', lambda: menu()['_Remove noise'][1] and 'audio-input' in icon())
choose_item('_Remove noise')
wait('the menu does not switch', lambda: status()['bypass'] and not menu()['_Remove noise'][1] and 'muted' in icon())
item('SecondaryActivate', '(ii)', (0, 0))
wait('a middle click does not switch', lambda: not status()['bypass'])
choose_item('0.50')
wait('the menu does not set the strength', lambda: setting('strength') == 0.5)
wait('the menu does not show the strength', lambda: menu()['0.50'][1] and not menu()['1.00'][1])
item('Scroll', '(is)', (-120, 'vertical'))
wait('the wheel does not raise the strength', lambda: setting('strength') == 0.55)
assert not find('frame', 'PrimeKnet')
item('Activate', '(ii)', (0, 0))
window_shows()
wait('a click opens no window', lambda: present())
wait('a choice from before is not shown', lambda: find('check box', 'pw-record') and not is_on('pw-record'))
assert application() == ('off', ['Fake microphone fake_mic'])
press('ctrl+w')
wait('the window stays', lambda: not find('frame', 'PrimeKnet'))
choose_item('_Open PrimeKnet')
wait('the menu opens no window', lambda: present())
assert gtk.poll() is None
choose_item('_Quit')
assert gtk.wait(PATIENCE_S) == 0 and status()
recorder.kill()
Gio.bus_unown_name(watcher)
ok('the tray switches, sets the strength, opens the window and ends it')

# ---- a panel ---------------------------------------------------------------------------------------------------------

CHANNEL = """<channel name="xfce4-panel" version="1.0">
<property name="configver" type="int" value="2"/>
<property name="panels" type="array"><value type="int" value="1"/>
    <property name="panel-1" type="empty">
        <property name="position" type="string" value="p=6;x=0;y=0"/>
        <property name="position-locked" type="bool" value="true"/>
        <property name="length" type="uint" value="100"/>
        <property name="plugin-ids" type="array"><value type="int" value="1"/></property>
    </property>
</property>
<property name="plugins" type="empty"><property name="plugin-1" type="string" value="systray"/></property>
</channel>
"""


def colours():
    """How many there are where the panel shows the first item."""
    return int(run('import', '-window', 'root', '-crop', '20x20+0+0', '-format', '%k', 'info:'))


def menu_shows():
    """The panel and the item's tooltip are less high."""
    shown = subprocess.run(['xdotool', 'search', '--onlyvisible', '--class', 'wrapper', 'getwindowgeometry', '%@'],
                           capture_output=True, text=True).stdout
    return any(int(height) > 80 for height in re.findall(r'Geometry: \d+x(\d+)', shown))


def point(button):
    run('xdotool', 'click', button)


if not WAYLAND and shutil.which('xfce4-panel') and shutil.which('import'):
    channels = os.environ['XDG_CONFIG_HOME'] + '/xfce4/xfconf/xfce-perchannel-xml'
    os.makedirs(channels)
    with open(f'{channels}/xfce4-panel.xml', 'w') as file:
        file.write(CHANNEL)
    panel = start('env', 'NO_AT_BRIDGE=1', 'xfce4-panel', '--disable-wm-check')
    gtk = start('primeknet-gtk', '--tray')
    wait('the panel does not show the item', lambda: colours() > 10)
    run('xdotool', 'mousemove', '10', '10')
    point('2')
    wait('a middle click on the panel does not switch', lambda: status()['bypass'])
    point('5')
    wait('the wheel on the panel does not lower the strength', lambda: setting('strength') == 0.5)
    point('3')
    wait('the panel shows no menu', menu_shows)
    press('Down', 'Return')
    wait("the panel's menu does not switch", lambda: not status()['bypass'])
    point('1')
    window_shows()
    wait('a click on the panel opens no window', lambda: present())
    gtk.terminate(), panel.terminate()
    ok('so it does in the panel of Xfce')
daemon.terminate()
