"""From messages to sentence pairs: what is taken away, what stays, what is left out."""

import pytest

from attnrate.data.clean import clean, key


@pytest.mark.parametrize(
    ("english", "german", "plain"),
    [
        (
            "Open the _file in a new window",
            "Die _Datei in einem neuen Fenster öffnen",
            ("Open the file in a new window", "Die Datei in einem neuen Fenster öffnen"),
        ),
        (
            "&amp;Save <b>all</b> open\n documents…",
            "<b>Alle</b> offenen Do&kumente\nspeichern ...",
            ("Save all open documents...", "Alle offenen Dokumente speichern ..."),
        ),
        (
            "~Find all of “these” words.",
            "Alle „diese“ Wörter finden",
            ('Find all of "these" words', 'Alle "diese" Wörter finden'),
        ),
        (
            "Copy & paste of whole lines:",
            "Kopieren & Einfügen ganzer Zeilen:",
            ("Copy & paste of whole lines:", "Kopieren & Einfügen ganzer Zeilen:"),
        ),
        (
            'The <a href="page">first line<br>and</a> the next <img src="x"/>one',
            'Die <a href="seite">erste Zeile<br/>und</a> die nächste<img src="x"/>',
            ("The first line and the next one", "Die erste Zeile und die nächste"),
        ),
        (
            "The connection was closed; it is lost.",
            "Die Verbindung wurde geschlossen; sie ist verloren.",
            (
                "The connection was closed; it is lost.",
                "Die Verbindung wurde geschlossen; sie ist verloren.",
            ),
        ),
    ],
)
def test_marks_go_and_words_stay(english, german, plain):
    assert clean(english, german) == plain


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("could not open file %s", "konnte Datei %s nicht öffnen"),
        ("write at most <number> lines to the disk", "höchstens <Anzahl> Zeilen schreiben"),
        ("send it to <nick name> in the channel", "es an <Spitzname> im Kanal senden"),
        ("Delete {count} files from disk", "{count} Dateien von der Platte löschen"),
        ("The file %1 does not exist", "Die Datei %1 ist nicht vorhanden"),
        ("Cannot read the file $HOME here", "Kann die Datei $HOME hier nicht lesen"),
        ("Visit us at https://example.org for more", "Mehr dazu unter https://example.org im Netz"),
        ("Open a file", "Eine Datei öffnen"),
        ("word " * 61, "Wort " * 60),
        ("  -q, --quiet      print less than usual", "  -q, --quiet      weniger ausgeben"),
        ("Raster|Show the whole layer", "Die ganze Ebene anzeigen"),
        ("The quick brown fox jumps", "The quick brown fox jumps"),
        ("This was not translated by anyone", "This was never translated by anyone"),
        ("This is the help of the program", "Here you can read the help for it"),
        ("Datei konnte nicht geöffnet werden", "Could not open the file"),
        ("Show this text in another window", "Ja"),
        (
            "Show it in a window",
            "Das hier ist ein viel zu langer Satz für den kurzen links daneben",
        ),
        ("Show this text in another window", "Показать этот текст в окне"),
        ("a = b + c * (d / e)", "a = b + c * (d : e)"),
        ("the option foo_bar is not known", "die Option foo_bar ist nicht bekannt"),
    ],
)
def test_what_is_no_pair_to_learn_from_is_left_out(english, german):
    assert clean(english, german) is None


def test_keys_tell_sentences_apart_by_their_words_only():
    assert key("Open 2 Files, now!") == key("open  files now") == "open files now"
    assert key("Über alles") != key("Uber alles")
