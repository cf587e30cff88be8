# For nixpkgs' callPackage: `pkgs.callPackage ./packaging/nix/package.nix { }` in a clean clone or an unpacked tarball.
# It was evaluated with stand-ins for its arguments, never built. `primeknet setup` needs the unit where systemd looks:
# put the package into systemd.packages as well as environment.systemPackages.
{
  lib,
  stdenv,
  autoreconfHook,
  gettext,
  glib,
  pkg-config,
  wrapGAppsHook4,
  cairo,
  check,
  flac,
  gtk4,
  jansson,
  ladspaH,
  libadwaita,
  libconfig,
  libdbusmenu,
  libsndfile,
  lv2,
  pipewire,
  soxr,
  speexdsp,
  systemd,
  wireplumber,
}:

stdenv.mkDerivation (finalAttrs: {
  pname = "primeknet";
  version = "0.1.0";

  src = lib.cleanSource ../..;

  strictDeps = true;
  nativeBuildInputs = [
    autoreconfHook
    gettext
    glib # glib-compile-resources
    pkg-config
    wrapGAppsHook4
  ];
  buildInputs = [
    cairo
    flac
    gtk4
    jansson
    ladspaH
    libadwaita
    libconfig
    libdbusmenu
    libsndfile
    lv2
    pipewire
    soxr
    speexdsp
    systemd
  ];

  configureFlags = [
    "--sysconfdir=/etc"
    "--with-cuda=no"
    "--with-gtk"
    "--with-plugins"
  ];
  # The settings file goes into the package, not into /etc.
  installFlags = [ "sysconfdir=${placeholder "out"}/etc" ];

  doCheck = true;
  nativeCheckInputs = [ check ];
  checkInputs = [ check ];
  preCheck = ''
    checkFlagsArray+=("TESTS=test-kernels test-model test-net test-settings")
  '';

  # What the window runs: pw-record, pw-play, pw-loopback, wpctl.
  preFixup = ''
    gappsWrapperArgs+=(--prefix PATH : ${
      lib.makeBinPath [
        pipewire
        wireplumber
      ]
    })
  '';

  meta = {
    description = "Microphone noise suppression for PipeWire in real time";
    license = lib.licenses.gpl3Plus;
    mainProgram = "primeknet";
    platforms = lib.platforms.linux;
  };
})
