"""What tests/test_window does in its session: DIRECTORY is for files, and has noisy.wav. The window is read and moved
from outside, by its accessible tree and by the keyboard."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import gi

gi.require_version('Atspi', '2.0')
from gi.repository import Atspi, Gio, GLib  # noqa: E402

TMP = sys.argv[1]
WAYLAND = 'WAYLAND_DISPLAY' in os.environ
CONFIG = f'{TMP}/primeknet.conf'
PATIENCE_S = 60
open(CONFIG, 'w').write('model = "small"\n')


def wait(what, until):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if value := until():
                return value
        except (GLib.Error, AttributeError):  # of the tree, while it changes
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


def setting(name):
    return status()['settings'][name]


# ---- what the window shows -------------------------------------------------------------------------------------------


def has(node, state):
    return node.get_state_set().contains(state)


def tree():
    """Role, name and object of all that is on the screen."""
    found, left = [], [Atspi.get_desktop(0)]
    while left:
        node = left.pop()
        if not node:
            continue
        role = node.get_role_name()
        if role == 'application':
            node.set_cache_mask(Atspi.Cache.NONE)
        if role not in ('desktop frame', 'application') and not has(node, Atspi.StateType.VISIBLE):
            continue
        found.append((role, node.get_name(), node))
        left += [node.get_child_at_index(i) for i in reversed(range(node.get_child_count()))]
    return found


def find(role, name):
    return next((node for r, n, node in tree() if r == role and n == name), None)


def shows(text):
    return any(text in name for role, name, _ in tree() if role == 'label')


def focus():
    return [(role, name) for role, name, node in tree() if has(node, Atspi.StateType.FOCUSED)]


def value(role, name):
    return find(role, name).get_value_iface().get_current_value()


def choice(name):
    """What a row with choices shows."""
    left, texts = [find('combo box', name)], []
    while left:
        node = left.pop()
        texts += [node.get_name()] if node.get_role_name() == 'label' else []
        left += [node.get_child_at_index(i) for i in range(node.get_child_count())]
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
    run('xdotool', 'windowsize', '--sync', window, '480', '1380')
    run('xdotool', 'windowfocus', '--sync', window)


# ---- the daemon away, and there --------------------------------------------------------------------------------------

gtk = start('primeknet-gtk')
window_shows()
wait('the absence is not shown', lambda: shows('Enhanced Mic Is Off') and shows('primeknetd is not running'))
assert not find('slider', 'Strength')
daemon = daemon_starts()
wait('the daemon is not shown', lambda: find('slider', 'Strength') and not shows('Enhanced Mic Is Off'))
wait('the microphone is not shown', lambda: 'Fake microphone fake_mic' in choice('Microphone'))
wait('the state is not shown', lambda: shows('Idle: nobody records'))
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
press('alt+s', 'Left', 'Left')
wait('strength is not set', lambda: setting('strength') == 0.9)
press('alt+f', 'Right', 'Right')
wait('floor is not set', lambda: setting('floor_db') == -58)
press('alt+l', 'Right')
wait('low cut is not set', lambda: setting('low_cut_hz') == 80)
press('alt+c')
wait('the echo is not cancelled', lambda: setting('echo_cancel') == 'true')
press('alt+f', 'Home')
wait('floor is not off', lambda: setting('floor_db') == 'off')


def offers():
    return any(role == 'list item' and has(node, Atspi.StateType.FOCUSED) for role, _, node in tree())


def choose(key, downs):
    wait('choices stay', lambda: not offers())
    press(key)
    wait(f'{key} offers nothing', offers)
    press('Home', *['Down'] * downs, 'Return')


choose('alt+m', 1)
wait('the microphone is not set', lambda: setting('microphone') == 'fake_mic')
choose('alt+n', 2)
wait('the network is not set', lambda: setting('model') == 'base')
choose('alt+e', 1)
wait('the engine is not set', lambda: setting('engine') == 'cpu')
choose('alt+o', 1)
wait('the speaker is not set', lambda: setting('speaker') == 'default')
wait('the speaker is not shown', lambda: 'Nobody plays' in choice('Output'))
wanted = ['strength = 0.9', 'floor_db = "off"', 'low_cut_hz = 80', 'microphone = "fake_mic"', 'model = "base"',
          'echo_cancel = true', 'engine = "cpu"', 'speaker = "default"']
wait('not kept', lambda: all(line in open(CONFIG).read() for line in wanted))
ok('each control does what it says, and is kept')

choose('alt+e', 2)  # there is no GPU, or no module for it
wait('a refusal is not told', lambda: shows('cuda: '))
wait('the refused value stays', lambda: 'Processor' in choice('Engine'))
assert setting('engine') == 'cpu'
ok('tells a refusal, and shows what is in force')

# ---- what others change ----------------------------------------------------------------------------------------------

run('primeknet', 'set', 'strength', '0.5')
wait('strength is not followed', lambda: value('slider', 'Strength') == 0.5)
run('primeknet', 'set', 'floor-db', '-18')
wait('floor is not followed', lambda: value('slider', 'Floor') == -18)
run('primeknet', 'set', 'low-cut-hz', '100')
wait('low cut is not followed', lambda: value('slider', 'Low cut') == 100)
run('primeknet', 'bypass', 'on')
wait('bypass is not followed', lambda: not has(find('check box', 'Remove noise'), Atspi.StateType.CHECKED))
run('primeknet', 'bypass', 'off')
run('primeknet', 'set', 'echo-cancel', 'false')
wait('echo is not followed', lambda: not has(find('check box', 'Cancel echo'), Atspi.StateType.CHECKED))
run('primeknet', 'model', 'small')
wait('the network is not followed', lambda: any(text.startswith('small on cpu') for text in choice('Network')))
run(os.path.join(os.path.dirname(__file__), 'pipewire-session'), 'add-mic', os.path.join(TMP, 'session'), 'usb_mic')
run('primeknet', 'use', 'usb')
wait('another microphone is not followed', lambda: choice('Microphone').count('Fake microphone usb_mic') == 2)
run('primeknet', 'use', 'fake_mic')
run('primeknet', 'set', 'speaker', 'off')
wait('the speaker is not followed', lambda: 'Off' in choice('Output'))
assert setting('strength') == 0.5 and 'strength = 0.9' in open(CONFIG).read(), 'the window kept what others set'
ok('follows what others change, and keeps nothing of it')

# ---- settings of one microphone --------------------------------------------------------------------------------------


def own():
    return has(find('check box', 'Only for this microphone'), Atspi.StateType.CHECKED)


def saved():
    """The settings file's text before its profiles, and that of them."""
    return open(CONFIG).read().partition('profiles')[::2]


wait('fake_mic is not followed', lambda: choice('Microphone').count('Fake microphone fake_mic') == 2)
assert not own() and status()['profile'] is None
press('alt+t')
wait('there is no profile', lambda: status()['profile'] == 'fake_mic' and 'microphone = "fake_mic"' in saved()[1])
wait('the profile is not shown', lambda: own() and shows('Fake microphone fake_mic has settings of its own'))
press('alt+s', 'Left')
wait('strength is not set', lambda: setting('strength') == 0.45)
choose('alt+n', 0)
wait('the network is not set', lambda: setting('model') == 'auto')
wanted = ['strength = 0.45', 'floor_db = -18', 'low_cut_hz = 100', 'model = "auto"']
wait('not kept in the profile', lambda: all(line in saved()[1] for line in wanted))
assert 'strength = 0.9' in saved()[0] and 'model = "base"' in saved()[0], 'kept for all microphones'
run('primeknet', 'use', 'usb')
wait('another microphone has the settings', lambda: value('slider', 'Strength') == 0.5 and not own())
wait('the network stays', lambda: setting('model') == 'small')
run('primeknet', 'use', 'fake_mic')
wait('the profile does not come back', lambda: value('slider', 'Strength') == 0.45 and own())
press('alt+t')
wait('the profile stays', lambda: status()['profile'] is None and value('slider', 'Strength') == 0.5 and not own())
assert saved()[1] == '' and setting('model') == 'small'
run('primeknet', 'profile', 'on')
wait('a profile made elsewhere is not shown', own)
run('primeknet', 'profile', 'off')
wait('a profile removed elsewhere is shown', lambda: not own())
ok('remembers settings for one microphone')

# ---- who records, and how that sounds --------------------------------------------------------------------------------


def picture(*words):
    """What ImageMagick tells of the screen."""
    return run('import', '-window', 'root', *words, 'info:')


def bars():
    """Whether the upper part of the spectrum shows more than its background."""
    box = find('image', 'Spectrum before and after').get_component_iface().get_extents(Atspi.CoordType.WINDOW)
    return int(picture('-crop', f'{box.width}x{box.height * 9 // 10}+{box.x}+{box.y}', '-format', '%k')) > 1


PICTURES = not WAYLAND and shutil.which('import')
assert not PICTURES or not bars()
player = start('pw-cat', '--playback', '--target', '0', '-P', '{ node.name = player }', f'{TMP}/noisy.wav')
recorder = start('pw-record', '--target', 'enhanced_mic', f'{TMP}/recorded.wav')
wait('no player', lambda: 'player:output_MONO' in run('pw-link', '-o').split())
run('pw-link', 'player:output_MONO', 'fake_mic:input_MONO')
wait('who records is not shown', lambda: shows('pw-record') and shows('Enhancing'))
wait('no level', lambda: value('level bar', 'Level before') > 30)
wait('no noise is removed', lambda: any(re.fullmatch('[1-9][0-9]* dB', name) for _, name, _ in tree()))
wait('no voice in speech', lambda: value('level bar', 'Voice activity') > 0.5)
wait('voice in noise', lambda: value('level bar', 'Voice activity') < 0.5)
assert shows(' ms')
if PICTURES:
    wait('the spectrum is empty', bars)
player.kill(), recorder.kill()
wait('the end of the recording is not shown', lambda: shows('nobody') and value('level bar', 'Level before') == 0)
if PICTURES:
    wait('the spectrum stays', lambda: not bars())
ok('shows who records, levels, noise, delay and spectrum')

# ---- applications ----------------------------------------------------------------------------------------------------


def application():
    """What the daemon says of pw-record: what was chosen for it, and what it records."""
    return next(((a['choice'], a['from']) for a in status()['applications'] if a['name'] == 'pw-record'), None)


wait('applications are shown that do not record', lambda: shows('No application records'))
recorder = start('pw-record', '--target', 'fake_mic', f'{TMP}/recorded.wav')
wait('no row for who records', lambda: {'Fake microphone fake_mic', 'Automatic'} <= set(choice('pw-record')))
assert_named()
press('alt+s')
while not has(find('combo box', 'pw-record'), Atspi.StateType.FOCUSED):
    before = focus()
    press('shift+ISO_Left_Tab')
    wait('the focus does not move', lambda: focus() not in (before, []))
choose('Return', 1)
wait('not moved to Enhanced Mic', lambda: application() == ('on', ['Enhanced Mic']))
wait('the move is not shown', lambda: {'Enhanced Mic', 'On'} <= set(choice('pw-record')))
choose('Return', 2)
wait('not moved away', lambda: application() == ('off', ['Fake microphone fake_mic']))
run('primeknet', 'app', 'pw-record', 'on')
wait('a choice is not followed', lambda: {'Enhanced Mic', 'On'} <= set(choice('pw-record')))
recorder.kill()
wait('the end is not shown', lambda: 'Nothing now' in choice('pw-record'))
run('primeknet', 'app', 'pw-record', 'off')
wait('a choice for who does not record is not followed', lambda: 'Off' in choice('pw-record'))
choose('Return', 0)
wait('the choice is not forgotten', lambda: not application())
wait('who is forgotten is shown', lambda: not find('combo box', 'pw-record') and shows('No application records'))
ok('moves applications, and shows where others move them')

# ---- problems --------------------------------------------------------------------------------------------------------


def muted():
    return 'yes' in run('pactl', 'get-source-mute', 'fake_mic')


run('pactl', 'set-source-mute', 'fake_mic', '1')
frame = find('frame', 'PrimeKnet').get_action_iface()
frame.do_action([frame.get_action_name(i) for i in range(frame.get_n_actions())].index('win.check'))
wait('the mute is not found', lambda: shows('Fake microphone fake_mic is muted'))
buttons = [node for role, name, node in tree() if role == 'push button' and name.startswith('Fix')]
assert muted() and buttons
for button in buttons:
    if 'set-mute' in button.get_description():
        button.get_action_iface().do_action(0)
wait('the mute is not undone', lambda: not muted() and not shows('Fake microphone fake_mic is muted'))
press('Escape')
ok('finds problems, and solves one')

# ---- the daemon ends, the window ends --------------------------------------------------------------------------------

daemon.terminate(), daemon.wait()
wait('the end is not shown', lambda: shows('Enhanced Mic Is Off'))
daemon = daemon_starts()
wait('the return is not shown', lambda: find('slider', 'Strength'))
window_shows()
press('alt+s', 'Left', 'ctrl+w') # what is on its way when the window is closed is kept
assert gtk.wait(PATIENCE_S) == 0
wait('the last movement is lost', lambda: setting('strength') == 0.85 and 'strength = 0.85' in open(CONFIG).read())
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

# ---- the tray --------------------------------------------------------------------------------------------------------

bus = Gio.bus_get_sync(Gio.BusType.SESSION)
items = []


def on_call(bus, sender, path, interface, method, parameters, invocation):
    items.append(parameters[0])
    invocation.return_value(None)


recorder = start('pw-record', '--target', 'fake_mic', f'{TMP}/recorded.wav')
wait('nobody records', application)
run('primeknet', 'app', 'pw-record', 'off')
WATCHER = 'org.kde.StatusNotifierWatcher'
node = Gio.DBusNodeInfo.new_for_xml(f'<node><interface name="{WATCHER}"><method name="RegisterStatusNotifierItem">'
                                    '<arg name="service" type="s" direction="in"/></method></interface></node>')
bus.register_object('/StatusNotifierWatcher', node.interfaces[0], on_call, None, None)
gtk = start('primeknet-gtk', '--tray')
time.sleep(2)
watcher = Gio.bus_own_name_on_connection(bus, WATCHER, Gio.BusNameOwnerFlags.NONE, None, None)
wait('no item', lambda: items)


def call(path, interface, method, parameters):
    return bus.call_sync(items[0], path, interface, method, parameters, None, Gio.DBusCallFlags.NONE, 5000, None)


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


def click(label):
    event = menu()[label][0], 'clicked', GLib.Variant('i', 0), 0
    call('/MenuBar', 'com.canonical.dbusmenu', 'Event', GLib.Variant('(isvu)', event))


wait('the tray does not show that noise is removed', lambda: menu()['_Remove noise'][1] and 'audio-input' in icon())
click('_Remove noise')
wait('the menu does not switch', lambda: status()['bypass'] and not menu()['_Remove noise'][1] and 'muted' in icon())
item('SecondaryActivate', '(ii)', (0, 0))
wait('a middle click does not switch', lambda: not status()['bypass'])
click('0.50')
wait('the menu does not set the strength', lambda: setting('strength') == 0.5)
wait('the menu does not show the strength', lambda: menu()['0.50'][1] and not menu()['1.00'][1])
item('Scroll', '(is)', (-120, 'vertical'))
wait('the wheel does not raise the strength', lambda: setting('strength') == 0.55)
assert not find('frame', 'PrimeKnet')
item('Activate', '(ii)', (0, 0))
window_shows()
wait('a click opens no window', lambda: find('slider', 'Strength'))
wait('a choice from before is not shown', lambda: 'Off' in choice('pw-record'))
assert application() == ('off', ['Fake microphone fake_mic'])
press('ctrl+w')
wait('the window stays', lambda: not find('frame', 'PrimeKnet'))
click('_Open PrimeKnet')
wait('the menu opens no window', lambda: find('slider', 'Strength'))
assert gtk.poll() is None
click('_Quit')
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
    wait('a click on the panel opens no window', lambda: find('slider', 'Strength'))
    gtk.terminate(), panel.terminate()
    ok('so it does in the panel of Xfce')
daemon.terminate()
