"""Which Debian packages the translation pairs come from, and which split each belongs to.

Whole projects are held out. A test or validation project has no fork or sibling in training (mutt
and neomutt would be such), and Sylpheed is held out together with Claws Mail, its fork.
"""

TEST = ("kmymoney-common", "pidgin-data", "shotwell-common", "subversion")
VALIDATION = ("audacity-data", "claws-mail-i18n", "sylpheed-i18n")

# at least 120 pairs each, and 40 a megabyte of the package, in Debian 12
_TRAIN = """
aisleriot akregator amule-common anjuta-common apt aptitude-common ardour-data aspell
binutils-common bleachbit bluefish-data brasero-common caja-common cantor cinnamon-l10n
coreutils cryptsetup-bin darktable dia-common digikam-data dnf-data dolphin dpkg e2fsprogs-l10n
easytag elinks-data epiphany-browser-data evolution-common evolution-data-server-common
evolution-ews filezilla-common fish-common flatpak freeciv-data fwupd gawk gcc-12-locales
geany-common geary gedit-common geeqie-common gettext gimp-data git gitg glabels-data
gnome-builder gnome-commander-data gnome-control-center-data gnome-disk-utility
gnome-shell-common gnome-software-common gnome-terminal-data gnomint gnote gnubg-data
gnucash-common gnumeric-common gnupg-l10n gpa gparted-common gramps grass-core grisbi-common
grub-common gthumb-data gtkpod-data gvfs-common hexchat-common homebank-data hugin-data
inkscape k3b-i18n kate5-data kdiff3 kgpg kio kleopatra kmail konsole korganizer krusader
kwin-data libc-l10n libexif12 libglib2.0-data libgnutls30 libgphoto2-l10n libgtk-3-common
libparted-i18n libreoffice-l10n-de libsane-common libvirt-l10n lokalize lynx-common
mailutils-common manaplus-data mate-control-center-common mate-desktop-common mate-panel-common
mc-data mcomix meld mercurial-common mutt nano neomutt network-manager network-manager-gnome
orca packagekit pan picard pitivi plasma-workspace-data pluma-common poedit-common
postgresql-15 postgresql-client-15 pspp r-base-core remmina-common rhythmbox-data rox-filer
rpm-i18n seahorse skrooge-common slrn solfege sssd-common sudo synaptic
system-config-printer-common tar texinfo thunar-data timeshift tin tracker-extract
util-linux-locales viking vim-runtime virtinst vlc-l10n weechat-core wxmaxima xboard
xfce4-panel xfce4-settings xfe-i18n xine-ui xournalpp xsane-common zim
"""
TRAIN = tuple(_TRAIN.split())

#: A few megabytes of packages of all splits: enough to try things on, too few to learn from
SMALL = (
    *("shotwell-common", "sylpheed-i18n"),
    *("e2fsprogs-l10n", "gnupg-l10n", "libvirt-l10n", "nano", "rpm-i18n", "util-linux-locales"),
)
